"""What the studies compare."""

import pytest

from dgl_ptdnet.studies.jobs import Plan
from dgl_ptdnet.studies.methods import CONTROLS, ROWS, jobs_of, row_of
from dgl_ptdnet.train import resolve
from dgl_ptdnet.train.settings import CONTROLS as ALL_CONTROLS, METHODS as ALL_METHODS, Settings


def test_controls_are_for_basic():
    with pytest.raises(ValueError, match="control is for the method basic"):
        Settings(method="ptdnet", control="shut")
    settings = [Settings(**row_of(row, dataset="cora")) for row in CONTROLS]
    assert {s.control for s in settings} == set(ALL_CONTROLS)
    assert all(s.method == "basic" and (s.control != "none" or s.gate_samples > 1) for s in settings)
    assert set(ALL_METHODS) == {row["method"] for row in ROWS.values()}


def test_the_consistency_control_has_what_ptdnet_plus_has():
    for backbone in ("gcn", "gat"):
        given = {"dataset": "cora", "backbone": backbone}
        control = jobs_of(Plan(), "control: Basic + consistency", 1, **given)[0].settings
        plus = jobs_of(Plan(), "ptdnet-plus", 1, **given)[0].settings
        assert (control.method, control.lr) == ("basic", resolve(given, method="basic").lr)
        assert control.gate_samples == plus.gate_samples > 1
        assert control.consistency_temperature == plus.consistency_temperature > 0
        assert control.consistency_warm_up == plus.consistency_warm_up
        assert control.consistency_weight == plus.consistency_weight > 0

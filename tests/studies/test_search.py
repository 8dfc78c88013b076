"""The search for every data set, backbone and method."""

import json
from dataclasses import replace

import pytest
from recorded import QUICK, figures

from dgl_ptdnet.studies.records import Records
from dgl_ptdnet.studies.search import SEARCHED, cells_of, read_searches, search
from dgl_ptdnet.train import resolve
from dgl_ptdnet.train.search import read_space, trials_of
from dgl_ptdnet.train.settings import METHODS as ALL_METHODS, defaults


def test_every_method_has_the_same_number_of_trials_and_its_defaults_first():
    for name in SEARCHED:
        cells = cells_of(name)
        searched = {cell.method for cell in cells}
        assert searched == ({"basic"} if name == "ppi" else set(ALL_METHODS) - ({"mlp"} if "-link" in name else set()))
        for cell in cells:
            settings = resolve(cell.to_json())
            space = read_space(settings)
            trials = trials_of(settings, space, 6)
            assert len(trials) == 6
            assert trials[0] == {value: getattr(settings, value) for value in space}
            assert trials == trials_of(settings, space, 6)
            basic = resolve({**cell.to_json(), "method": "basic"})
            for trial, other in zip(trials[1:], trials_of(basic, read_space(basic), 6)[1:]):
                assert trial.items() >= other.items()
            for trial in trials:
                replace(settings, **trial)
    with pytest.raises(ValueError, match="there is no search for 'mine'"):
        cells_of("mine")


def test_the_best_by_validation_is_chosen_and_the_test_is_not_looked_at(tmp_path, monkeypatch):
    from dgl_ptdnet.studies import search as module

    ran = []

    def runs(jobs, records, **options):
        for job in jobs:
            if records.get(job) is None:
                ran.append(job)
                s = job.settings
                figure = figures(-s.lr, val=round(s.lr, 2), val_loss=s.weight_decay, seed=s.first_seed)
                records.add(job, figure)

    monkeypatch.setattr(module, "run", runs)
    records = Records(tmp_path)
    search(["synthetic"], records, QUICK, trials=8)
    found = read_searches(tmp_path)
    assert [record.cell.method for record in found] == list(ALL_METHODS)
    different = [{json.dumps(x.values): len(x.val) for x in record.trials} for record in found]
    assert len(ran) == sum(sum(runs.values()) for runs in different)  # a draw may be equal to the defaults
    assert "test" not in (tmp_path / "search.jsonl").read_text()
    for record in found:
        best = max(record.trials, key=lambda trial: (round(trial.values["lr"], 2), -trial.values["weight_decay"]))
        assert record.trials[record.chosen] == best
        assert sorted(len(trial.val) for trial in record.trials) == [1] * 6 + [3] * 2
        key = {"dataset": "synthetic", "backbone": "gcn", "method": record.cell.method}
        assert defaults(key, tmp_path / "defaults") == best.values
    before, count = (tmp_path / "search.jsonl").read_bytes(), len(ran)
    search(["synthetic"], Records(tmp_path), QUICK, trials=8)
    assert ((tmp_path / "search.jsonl").read_bytes(), len(ran)) == (before, count)

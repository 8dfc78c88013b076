"""Rows of runs, and tests of one against another."""

import pytest
from recorded import figures

from dgl_ptdnet.studies.jobs import Plan
from dgl_ptdnet.studies.records import Records
from dgl_ptdnet.studies.runs import Runs, holm, paired_p, with_p


def test_the_test_against_basic_is_paired(tmp_path):
    records = Records(tmp_path)
    jobs = {row: [Plan().job(seed, method=row) for seed in range(5)] for row in ("basic", "dropedge")}
    spread = [0.5, 0.6, 0.7, 0.8, 0.9]
    for number, (a, b) in enumerate(zip(*jobs.values())):
        records.add(a, figures(spread[number]))
        if number != 2:
            records.add(b, figures(spread[number] + 0.01 + 0.001 * (number % 2)))
    basic, other = (Runs(records, of) for of in jobs.values())
    assert paired_p(other, basic) < 0.001  # not paired, it would be nothing
    assert paired_p(basic, basic) is None
    assert str(basic) == "0.700 ± 0.158"
    assert (len(other), str(Runs(records, []))) == (4, "–")
    assert with_p(basic, basic) == "0.700 ± 0.158 (5)"
    assert with_p(other, basic).endswith("(4), p < 0.001")
    assert with_p(Runs(records, []), basic) == "–"


def test_holm_corrects_for_the_number_of_cells():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 3 x, then 2 x, never falling
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []

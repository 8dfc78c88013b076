"""Sentences about finished runs."""

from recorded import figures

from dgl_ptdnet.studies.claims import claim, claim_above, why, why_by
from dgl_ptdnet.studies.jobs import Plan
from dgl_ptdnet.studies.methods import jobs_of
from dgl_ptdnet.studies.records import Records
from dgl_ptdnet.studies.runs import Runs


def test_gates_that_tell_nothing_apart_are_no_reason():
    said = why_by("PTDNet", {"with GCN": 0.01, "with GAT": 0.5})
    assert "do not tell edges between equal labels from others with GCN (+0.010): their means differ by less" in said
    assert "tell edges between equal labels from others with GAT (+0.500)." in said
    assert why_by("PTDNet", {}) == ""


def test_layers_that_keep_nothing_are_named(tmp_path):
    found = {}
    for backbone, kept in (("gcn", [0, 0]), ("sage", [0.9, 0, 0, 0.001]), ("gat", [0.9, 0.8]), ("gin", [0, 0])):
        records = Records(tmp_path / backbone)
        rows = jobs_of(Plan(), "PTDNet", 2, dataset="cora", backbone=backbone)
        for job in rows:
            records.add(job, figures(edges_kept=kept, gate_same=(0.9, 1), gate_other=(0.2, 1)))
        found[backbone] = Runs(records, rows)
    said = why("PTDNet", {**found, "nowhere": Runs(Records(tmp_path), [])})
    assert "PTDNet shuts every layer and becomes an MLP (gcn, gin); layers 2 to 4 (sage).\n" in said
    assert "PTDNet tell edges between equal labels from others sage (+0.700), gat (+0.700).\n" in said


def test_claims_say_where_they_do_not_hold():
    assert "not run yet" in claim("x", {})
    assert "**true** in all 2" in claim("x", {"a": True, "b": True})
    assert "true in 1 of 2; false in b" in claim("x", {"a": True, "b": False})
    assert "**false** in all 1" in claim("x", {"a": False})


def test_a_row_above_another_is_tested(tmp_path):
    def runs(name, values):
        records, rows = Records(tmp_path / name), jobs_of(Plan(), "Basic", len(values), dataset="cora", backbone="gcn")
        for job, value in zip(rows, values):
            records.add(job, figures(value, val=value))
        return Runs(records, rows)

    low, high, noisy = runs("a", [0.5, 0.51, 0.52]), runs("b", [0.6, 0.61, 0.63]), runs("c", [0.1, 0.52, 0.95])
    none = Runs(Records(tmp_path), [])
    assert claim_above("x", {"a": (high, low), "b": (noisy, low)}) == "- x: **true** in all 2; with p < 0.05 in 1.\n"
    assert claim_above("x", {"a": (low, high)}).endswith("**false** in all 1 (a).\n")
    assert "not run yet" in claim_above("x", {"a": (low, none)})

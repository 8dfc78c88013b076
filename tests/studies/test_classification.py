"""Node classification."""

import dgl
import pytest
import torch
from recorded import figures

from dgl_ptdnet.data import synthetic
from dgl_ptdnet.studies import classification, noise
from dgl_ptdnet.studies.jobs import Plan
from dgl_ptdnet.studies.methods import ROWS, jobs_of
from dgl_ptdnet.studies.records import Records
from dgl_ptdnet.train.settings import METHODS as ALL_METHODS


def test_two_studies_share_a_run():
    shared = {*classification.jobs(Plan())} & {*noise.jobs(Plan())}
    assert len(shared) == 5 * (1 + 3 * (len(ROWS) - 1))  # Cora without noise, five seeds, one MLP for all


def test_what_controls_have_of_a_gain_is_said(tmp_path):
    records = Records(tmp_path)
    given = {"dataset": "cora", "backbone": "gcn"}
    for row, test in (("Basic", 0.5), ("ptdnet-plus", 0.7), ("control: Basic + node MLP", 0.55)):
        for seed, job in enumerate(jobs_of(Plan(), row, 10, **given)):
            gates = dict.fromkeys(("edges_kept", "gate_same", "gate_other"), (1, 1))
            records.add(job, figures(test + (row == "ptdnet-plus") * seed / 1000, val=test, **gates))
    line = "| cora GCN | ptdnet-plus | 0.705 ± 0.003 | 0.500 ± 0.000 | Basic + node MLP: 0.550 ± 0.000 | +0.154 |"
    assert f"{line} < 0.001 | 0.828 | no |" in classification.text(Plan(), records)


def test_labels_that_are_not_the_papers_are_not_held_against_it(tmp_path):
    records = Records(tmp_path)
    for row, test in (("Basic", 0.5), ("ptdnet-plus", 0.99)):
        for job in jobs_of(Plan(), row, 3, dataset="ppi", backbone="gcn"):
            records.add(job, figures(test, val=test, edges_kept=(1, 1)))
    said = classification.text(Plan(), records)
    assert "reaches the paper's value for PTDNet (without PPI, whose labels differ): –" in said
    assert "On PPI it is at least as good as Basic: **true** in all 1" in said


@pytest.mark.parametrize("several", [False, True])
def test_a_file_gets_every_method_that_fits_its_labels(several, tmp_path):
    g = synthetic(0).graph
    if several:
        g.ndata["label"] = torch.nn.functional.one_hot(g.ndata["label"]).float()
    path = str(tmp_path / "mine.bin")
    dgl.save_graphs(path, [g])
    mine = [job for job in classification.jobs(Plan(files=(path,))) if job.group == "mine"]
    assert {job.settings.method for job in mine} == set(ALL_METHODS)
    assert {job.settings.backbone for job in mine} == {"gcn", "sage", "gat"}
    assert any(job.settings.control == "self-training" for job in mine) != several

"""Records of finished jobs."""

import json

import pytest
from recorded import QUICK, figures

from dgl_ptdnet.studies.jobs import Job, default_values
from dgl_ptdnet.studies.records import Records
from dgl_ptdnet.studies.regularizers import Communities, Curve
from dgl_ptdnet.train import Settings


def test_an_incomplete_line_is_ignored_and_written_again(tmp_path):
    jobs = [QUICK.job(seed, dataset="cora", method="basic") for seed in range(3)]
    for number, job in enumerate(jobs[:2]):
        Records(tmp_path).add(job, figures(number, seed=number))
    path = tmp_path / "cora.jsonl"
    whole = path.read_bytes()
    for cut in (1, 5, len(whole) // 4):
        path.write_bytes(whole[:-cut])
        records = Records(tmp_path)
        assert [found.test for found in records.of(jobs)] == [0]
        records.add(jobs[1], figures(1, seed=1))
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("what", "given"),
    [
        ("", figures(0.25, seed=3, edges_kept=(0.5, 1.0), gate_same=(1.0, 1.0), test_ap=0.5)),
        ("communities", Communities(test=0.5, crossing_before=0.25, edges_kept=0.5)),
        ("curve", Curve(0.1, 0.2, 3, (1.0,), (1.0,), (0.5,), (0, 4), (0.5, 0.25))),
    ],
)
def test_figures_come_back_as_they_were(what, given, tmp_path):
    job = Job(Settings(first_seed=3, seeds=1), measure="regularizers" if what else "", what=what)
    Records(tmp_path).add(job, given)
    assert Records(tmp_path).get(job) == given


def test_records_stay_valid_when_a_default_changes(tmp_path):
    (tmp_path / "settings.json").write_text(json.dumps({**default_values(), "lr": 0.5}))  # of a program before
    old, new = (Job(Settings(dataset="cora", method="basic", lr=lr)) for lr in (0.5, 0.01))
    Records(tmp_path).add(old, figures(0.5))
    Records(tmp_path).add(new, figures(0.25))
    lines = [json.loads(line)["job"]["settings"] for line in (tmp_path / "cora.jsonl").read_text().splitlines()]
    assert ["lr" in line for line in lines] == [False, True]
    assert [found.test for found in Records(tmp_path).of([old, new])] == [0.5, 0.25]


def test_a_folder_gets_the_defaults_of_new_settings(tmp_path):
    stored = {name: value for name, value in default_values().items() if name != "agreement_lr"}
    (tmp_path / "settings.json").write_text(json.dumps(stored))
    job = Job(Settings(dataset="cora"))
    Records(tmp_path).add(job, figures(0.5))
    assert json.loads((tmp_path / "settings.json").read_text()) == default_values()
    assert Records(tmp_path).get(job).test == 0.5


@pytest.mark.parametrize(
    "line",
    [
        '{"job": {"settings": {"edges": 0.5}}, "test": 0.5}',
        '{"job": {"settings": {}}, "test": 0.5}',
        '{"job": {"settings": {}, "measure": "os"}, "test": 0.5}',
        "no JSON",
    ],
)
def test_a_line_of_another_version_is_named(line, tmp_path):
    (tmp_path / "cora.jsonl").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"cora.jsonl, line 1 is not a record of this version"):
        Records(tmp_path)

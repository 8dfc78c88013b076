"""Running studies, and the page about them."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from recorded import QUICK, figures, lines, recorded

from dgl_ptdnet.cli import main
from dgl_ptdnet.studies import STUDIES, classification, rank_k, reproduce
from dgl_ptdnet.studies.jobs import Plan
from dgl_ptdnet.studies.page import page_text, study, write_page
from dgl_ptdnet.studies.records import Records
from dgl_ptdnet.studies.search import Cell, SearchRecord, Trial
from dgl_ptdnet.train.atomic import locked

ROOT = Path(__file__).parents[2]


def test_a_folder_that_is_at_work_is_refused(tmp_path, capsys):
    with locked(tmp_path):
        assert main(["reproduce", "--quick", "--only", "statistics", "--out", str(tmp_path)]) == 2
    assert "another process is using" in capsys.readouterr().err
    assert main(["reproduce", "--only", "statistic"]) == 2
    assert "there is no study 'statistic'; there are statistics, " in capsys.readouterr().err


def test_quick_makes_everything_and_a_kill_costs_nothing(tmp_path):
    command = [sys.executable, "-m", "dgl_ptdnet", "reproduce", "--quick"]
    out, began = tmp_path / "out" / "quick", time.monotonic()
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None and (not out.exists() or sum(map(len, lines(out).values())) < 100):
            time.sleep(0.05)
        workers = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    before = lines(out)
    assert 100 <= sum(map(len, before.values())) < 300
    with open(next(out.glob("cora.jsonl")), "ab") as file:
        file.write(b'{"job": {"settings"')
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert time.monotonic() - began < 300
    after = lines(out)
    assert all(after[name][: len(of)] == of for name, of in before.items())
    found = recorded(out)
    assert len(found) == len(set(found))
    assert set(found) == {job for name in STUDIES for job in study(name).jobs(QUICK)}

    text = (out / "results.md").read_text()
    assert text == page_text(QUICK, Records(out))
    assert all(f"## {study(name).TITLE}" in text for name in STUDIES)
    drawn = {path.stem for path in (out / "results").iterdir()}
    assert drawn == {"noise", "good_bad_edges", "denoising", "regularizers", "rank_k", "depth"}
    assert all(f"results/{name}.png" in text for name in drawn)
    assert "not run yet" not in text


def test_the_page_can_be_written_before_anything_ran_and_changes_with_the_records(tmp_path):
    records = Records(tmp_path / "results")
    write_page(tmp_path / "page.md", Plan(), records)
    empty = (tmp_path / "page.md").read_text()
    assert empty.count("Not run yet.") == len(STUDIES)
    assert not list((tmp_path / "page").iterdir())
    for job in classification.jobs(Plan()):
        if job.settings.dataset == "citeseer":
            records.add(job, figures(0.7123, val=0.7, edges_kept=(1.0,), gate_same=(1.0,), gate_other=(1.0,)))
    assert "0.712" in page_text(Plan(), records)
    assert page_text(Plan(), records) != empty


@pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="there are no records in results/")
def test_the_page_says_what_the_records_say():
    want = page_text(Plan(), Records(ROOT / "results"), "search_history.md")
    assert (ROOT / "docs" / "results.md").read_text() == want, "run `dgl-ptdnet reproduce --report`"


def test_what_is_complete_is_said_to_be(tmp_path):
    said = []
    jobs = study("rank-k").jobs(QUICK)
    for job in jobs:
        Records(tmp_path).add(job, rank_k.Times(1.0, 200.0) if job.measure else figures())
    reproduce(only=["rank-k"], quick=True, out=tmp_path, say=said.append)
    assert said == [f"all {len(jobs)} runs have finished before"]


def test_a_data_set_that_no_run_is_on_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no run uses coar; there are .*cora"):
        reproduce(only=["classification"], datasets=["coar"], out=tmp_path)
    with pytest.raises(ValueError, match="there is no search for 'coar'"):
        reproduce(searching=True, datasets=["cora", "coar"], out=tmp_path)
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_page_says_of_searches_only_what_its_records_say(tmp_path):
    records = Records(tmp_path)
    assert "search_history" not in page_text(Plan(), records)
    assert "trials (seeds)" not in page_text(Plan(), records)
    cells = [("basic", 3, 2), ("ptdnet", 3, 2), ("mlp", 5, 1)]
    for method, trials, seeds in cells:
        tried = tuple(Trial({"lr": 0.1}, (0.5,) * seeds, (1.0,) * seeds) for _ in range(trials))
        with open(tmp_path / "search.jsonl", "a") as file:
            file.write(json.dumps(SearchRecord(Cell("mine", "gcn", method), 0, tried).to_json()) + "\n")
    assert "| mine | 3 (2) | mlp with gcn: 5 (1) |" in page_text(Plan(), records)
    write_page(tmp_path / "results.md", Plan(), records)
    assert "search_history" not in (tmp_path / "results.md").read_text()
    (tmp_path / "search_history.md").write_text("...")
    write_page(tmp_path / "results.md", Plan(), records)
    assert "[search_history.md](search_history.md)" in (tmp_path / "results.md").read_text()

"""The search for settings."""

import json

import pytest
from runs import settings, small

from dgl_ptdnet.train import sweep, train
from dgl_ptdnet.train.atomic import locked
from dgl_ptdnet.train.search import Score, Search
from dgl_ptdnet.train.settings import read_settings


def test_a_loss_that_is_no_number_ends_a_run_and_a_sweep_goes_on(tmp_path):
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) in epoch \d of seed 0. Train with a lower lr \(it is"):
        train(settings(method="basic", lr=1e30, epochs=9), small())
    (tmp_path / "space.toml").write_text("lr = [1e30, 0.01]")
    sweep(settings(method="basic", epochs=9), tmp_path, trials=4, data=small(), space=tmp_path / "space.toml")
    rows = [json.loads(line) for line in (tmp_path / "trials.jsonl").read_text().splitlines()]
    assert {row["validation"] > 0 for row in rows if row["lr"] == 0.01} == {True}
    assert {row["validation"] for row in rows if row["lr"] != 0.01} <= {0.0}


def test_a_sweep_goes_on_where_it_was(tmp_path):
    s, data = settings(method="dropedge"), small()
    sweep(s, tmp_path / "whole", trials=6, data=data)
    sweep(s, tmp_path / "parts", trials=2, data=data)
    best = sweep(s, tmp_path / "parts", trials=6, data=data)
    lines = [(tmp_path / name / "trials.jsonl").read_text() for name in ("whole", "parts")]
    assert lines[0] == lines[1]
    tried = [json.loads(line) for line in lines[0].splitlines()]
    assert len(tried) == 6
    assert tried[0]["lr"] == s.lr
    assert max(tried, key=lambda row: row["validation"])["validation"] == max(row["validation"] for row in tried)
    found = read_settings(tmp_path / "parts" / "best.toml")
    assert found["dropedge_rate"] == best["dropedge_rate"]
    assert found["layers"] == s.layers  # the network that was searched for, not another
    assert "seeds" not in found
    with pytest.raises(ValueError, match="other settings"):
        sweep(settings(method="basic"), tmp_path / "parts", trials=6, data=data)


def test_a_path_with_signs_of_addresses_is_a_path(tmp_path):
    out = tmp_path / "50%?lr=1#x"
    s = settings(method="basic", epochs=1)
    best = sweep(s, out, trials=2, data=small())
    assert {path.name for path in out.iterdir()} == {".lock", "study.db", "trials.jsonl", "best.toml"}
    assert [path.name for path in tmp_path.iterdir()] == [out.name]
    assert sweep(s, out, trials=2, data=small()) == best


def test_a_sweep_locks_its_folder(tmp_path):
    with locked(tmp_path), pytest.raises(ValueError, match="another process is using"):
        sweep(settings(method="basic"), tmp_path, trials=1, data=small())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("lr = 0.1", "it must be a list of values, or a range with low, high"),
        ("lr = []", "it must be a list of values"),
        ('lr = ["much"]', "lr must be float; got 'much'"),
        ("lr = [-1.0]", "lr must be a number of at least 0"),
        ("lr = { low = 0.1 }", "a range with low, high"),
        ("lr = { low = 0.2, high = 0.1 }", "low must not exceed high"),
        ("lr = { low = 0.0, high = 0.1, log = true }", "lr cannot be searched"),
        ("lr = { low = 0.1, high = 0.2, step = 0 }", "step must be positive"),
        ("lr = { low = 0.1, high = 0.2, step = 0.1, log = true }", "not used with log"),
        ('lr = { low = "a", high = "b" }', "low, high and step must be numbers"),
        ("hidden = { low = 1.5, high = 2.5 }", "hidden must be int; got 1.5"),
        ("[ptdnet]\nlr = [0.1]", "has nothing to search for basic with gcn"),
    ],
)
def test_a_wrong_space_is_named_and_leaves_no_study(text, reason, tmp_path):
    space, out = tmp_path / "space.toml", tmp_path / "out"
    space.write_text(text)
    with pytest.raises(ValueError, match=f"space.toml.*{reason}"):
        sweep(settings(method="basic", epochs=1), out, trials=1, data=small(), space=space)
    assert not out.exists()
    space.write_text("lr = [0.1]")
    assert sweep(settings(method="basic", epochs=1), out, trials=1, data=small(), space=space) == {"lr": 0.01}


def test_the_best_quarter_is_run_with_all_seeds_and_the_best_mean_is_taken():
    search = Search(settings(), [{"lr": lr / 100} for lr in range(1, 9)], range(5, 8))
    first = {run: Score(0.1 * run[0] % 0.5, 1.0) for run in search.first_runs()}  # trials 4 and 3 are the best
    assert search.first_runs() == [(trial, 5) for trial in range(8)]
    assert search.finalists(first) == [4, 3]
    assert search.more_runs(first) == [(4, 6), (4, 7), (3, 6), (3, 7)]
    for of_three, best in ((0.4, 4), (0.9, 3)):
        more = {run: Score(0.45 if run[0] == 4 else of_three, 1.0) for run in search.more_runs(first)}
        assert search.best({**first, **more}) == best  # 0.43 against 0.37 and 0.7
    losses = {(trial, seed): Score(0.4, 9.0 - trial) for trial in range(8) for seed in range(5, 8)}
    assert search.finalists(losses) == [7, 6]
    assert search.best(losses) == 7
    run = search.settings_of((2, 6))
    assert (run.lr, run.first_seed, run.seeds) == (0.03, 6, 1)


def test_a_resumed_sweep_runs_nothing_twice(tmp_path, monkeypatch):
    ran, interrupts = [], [2]

    def score(settings, data, data_dir):
        if len(ran) in interrupts:
            interrupts.clear()
            raise KeyboardInterrupt
        ran.append((settings.lr, settings.first_seed))
        return Score(settings.lr, 1.0)

    monkeypatch.setattr("dgl_ptdnet.train.search._score", score)
    s = settings(method="basic", seeds=2)
    with pytest.raises(KeyboardInterrupt):
        sweep(s, tmp_path, trials=4)
    best = sweep(s, tmp_path, trials=4)
    assert len(ran) == len(set(ran)) == 4 + 1  # four trials, and the best of them with the second seed
    assert best["lr"] == max(lr for lr, _ in ran)

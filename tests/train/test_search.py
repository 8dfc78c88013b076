"""The search for settings."""

import json

import pytest
from runs import settings, small

from dgl_ptdnet.train import sweep, train
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

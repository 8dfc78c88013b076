"""Runs of several seeds."""

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from runs import settings, small

from dgl_ptdnet.train import load_run, train
from dgl_ptdnet.train.settings import BACKBONES, METHODS

KEYS = {"dataset", "backbone", "method", "noise_edges", "metric", "val", "test", "mean", "std", "epoch_seconds"}


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_every_backbone(method, backbone, tmp_path):
    result = train(settings(method=method, backbone=backbone, seeds=2), small(), out=tmp_path)
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics.keys() >= KEYS
    assert (metrics["backbone"], metrics["method"], metrics["metric"]) == (backbone, method, "accuracy")
    assert len(metrics["val"]) == len(metrics["test"]) == 2
    assert metrics["mean"] == pytest.approx(np.mean(metrics["test"]))
    assert metrics["std"] == pytest.approx(np.std(metrics["test"], ddof=1))
    assert metrics == result.metrics.to_json()
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(row["seed"], row["epoch"]) for row in rows] == [(s, e) for s in (0, 1) for e in range(3)]
    assert (tmp_path / "training.png").exists()
    learns = method in ("neuralsparse", "ptdnet-wl", "ptdnet", "ptdnet-plus")
    assert (tmp_path / "gates.png").exists() == (tmp_path / "degrees.png").exists() == learns


def test_several_draws_and_amp():
    assert math.isfinite(train(settings(method="ptdnet", gate_samples=3, amp=True), small()).metrics.mean)


def test_a_network_learns():
    assert (
        train(settings(method="basic", epochs=60, hidden=32), small(class_size=60, num_pairs=2000)).metrics.mean > 0.6
    )


def test_samples_are_the_same_in_every_process():
    code = """
import dgl, torch
from dgl_ptdnet.train import resolve, train
g = dgl.rand_graph(3000, 60_000)
g = dgl.graph((torch.arange(60_000) % 3000, torch.arange(60_000) * 7919 % 3000))
g.ndata["feat"], g.ndata["label"] = torch.arange(9000.0).view(3000, 3).sin(), torch.arange(3000) % 3
s = resolve(method="basic", seeds=1, epochs=2, batch_size=500, fanouts=[3, 3], threads=2)
print(train(s, g).seeds[0].history[-1].loss)
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code]
    runs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({run.communicate()[0] for run in runs}) == 1  # beside each other, so that their threads race
    assert not any(run.returncode for run in runs)


def test_the_caller_s_number_of_threads_stays(tmp_path, threads):
    threads(2)
    train(settings(method="ptdnet"), small(), out=tmp_path)
    run = load_run(tmp_path, data=small())
    run.evaluate("test"), run.denoised()
    assert torch.get_num_threads() == 2


def test_a_saved_run_tests_the_same(tmp_path):
    for method in ("ptdnet", "ptdnet-plus"):
        s = settings(method=method, seeds=2, epochs=3, noise_edges=50)
        result = train(s, small(), out=tmp_path / method)
        for seed in range(2):
            assert load_run(tmp_path / method, seed, small()).evaluate("test").metric == result.metrics.test[seed]
        written = json.loads((tmp_path / method / "metrics.json").read_text())
        for val in ([0.1, 0.2], [0.2, 0.1], None):  # the best in validation; the first, where the run has not ended
            path = tmp_path / method / "metrics.json"
            path.write_text(json.dumps({**written, "val": val})) if val else path.unlink()
            assert load_run(tmp_path / method, data=small()).seed == (1 if val == [0.1, 0.2] else 0)
    with pytest.raises(ValueError, match="no model of seed 7"):
        load_run(tmp_path / "ptdnet", 7, small())


def test_noise_and_seeds_count():
    s = settings(method="basic", seeds=2, noise_edges=40)
    a, b = train(s, small()), train(s, small())
    assert a.metrics.test == b.metrics.test
    assert train(settings(method="basic", first_seed=1, noise_edges=40), small()).metrics.test == a.metrics.test[1:]

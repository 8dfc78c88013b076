"""Training: settings, models, tasks, runs that go on with the same bits."""

import json
import math
import os
import resource
import subprocess
import sys

import dgl
import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score
from torch.nn import functional

import dgl_ptdnet as ptd
from dgl_ptdnet.agreement import Agreement
from dgl_ptdnet.data import Dataset, add_noise_edges, synthetic
from dgl_ptdnet.sparse import SparseRows
from dgl_ptdnet.train import GNN, Settings, load_run, resolve, sweep, train
from dgl_ptdnet.train.loop import Trainer
from dgl_ptdnet.train.settings import BACKBONES, METHODS, defaults, read_settings, read_toml, update_defaults
from dgl_ptdnet.train.tasks import LinkPrediction, NodeClassification, make_task, with_loops
from dgl_ptdnet.train.write import locked, write_whole

KEYS = {"dataset", "backbone", "method", "noise_edges", "metric", "val", "test", "mean", "std", "epoch_seconds"}


@pytest.fixture(autouse=True)
def one_thread(threads):
    """Small graphs: what train() itself chooses."""
    threads(1)


def small(seed=0, **options):
    return synthetic(seed, **{"class_size": 20, "num_pairs": 300, "num_feats": 12, **options})


def several_graphs(multilabel=True):
    graphs = []
    for seed in range(4):
        g = small(seed).graph
        label = g.ndata["label"]
        if multilabel:
            g.ndata["label"] = torch.stack([label % 2 == 0, label > 1, label == 3], 1).float()
            g.ndata["label_exact"] = torch.arange(len(label)) % 3 > 0
        for k, split in enumerate(("train", "val", "test")):
            g.ndata[f"{split}_mask"] = torch.full((len(label),), (0, 0, 1, 2)[seed] == k)
        graphs.append(g)
    return Dataset.from_graphs(graphs, name="several")


def settings(**given):
    return resolve({"dataset": "small", "seeds": 1, "epochs": 3, "hidden": 8, "heads": 2, **given})


def trainer(data=None, seed=0, **given):
    s = settings(**given)
    return Trainer(make_task(data or small(), s, seed), s, seed)


def same_bits(a, b):
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and bool((a == b).all())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_bits(a[k], b[k]) for k in a if k != "seconds")
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_bits, a, b))
    return a == b


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
    assert metrics == json.loads(json.dumps(result.metrics))
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(row["seed"], row["epoch"]) for row in rows] == [(s, e) for s in (0, 1) for e in range(3)]
    assert (tmp_path / "training.png").exists()
    learns = method in ("neuralsparse", "ptdnet-wl", "ptdnet", "ptdnet-plus")
    assert (tmp_path / "gates.png").exists() == (tmp_path / "degrees.png").exists() == learns


@pytest.mark.parametrize("backbone", BACKBONES)
def test_basic_is_the_plain_network(backbone):
    g, x = with_loops(small().graph, backbone), small().graph.ndata["feat"]
    torch.manual_seed(0)
    model = GNN(backbone, 12, 8, 5, layers=3, heads=2, out_heads=2).eval()
    h = x
    for k, layer in enumerate(model.layers):
        h = layer.conv(g, h)
        if backbone == "gat":
            h = h.mean(1) if k == 2 else h.flatten(1)
        h = h if k == 2 else functional.elu(h) if backbone == "gat" else torch.relu(h)
    torch.testing.assert_close(model(g, x), h)


@pytest.mark.parametrize("layers", [1, 4])
def test_any_depth(layers):
    metrics = train(settings(method="ptdnet", layers=layers, residual=True), small()).metrics
    assert len(metrics["kept"][0]) == layers


def test_several_draws_and_amp():
    assert math.isfinite(train(settings(method="ptdnet", samples=3, amp=True), small()).metrics["mean"])


def test_draws_are_drawn_to_their_mean():
    a, b = torch.randn(2, 100, 5)
    found = trainer(method="ptdnet")._distance([a, b])
    torch.testing.assert_close(found, 2 * ((a - b) / 2).square().sum(1).mean())


def test_sharpened_draws_of_one_label_are_drawn_to_surer_probabilities():
    a, b = torch.randn(2, 100, 5).requires_grad_()
    found = trainer(method="ptdnet", sharpen=0.5)._distance([a, b])
    p, q = a.softmax(1), b.softmax(1)
    target = ((p + q) / 2).detach() ** 2
    target = target / target.sum(1, keepdim=True)
    wanted = sum((x - target).square().sum(1).mean() for x in (p, q))
    torch.testing.assert_close(found, wanted)
    for x in (a, b):
        torch.testing.assert_close(*(torch.autograd.grad(y, x, retain_graph=True)[0] for y in (found, wanted)))


def test_sharpened_draws_of_several_labels_are_drawn_to_surer_probabilities():
    training = trainer(several_graphs(), method="ptdnet", samples=2, sharpen=0.25)
    a, b = torch.randn(2, 100, 3)
    p, q = a.sigmoid(), b.sigmoid()
    yes, no = ((p + q) / 2) ** 4, (1 - (p + q) / 2) ** 4
    wanted = sum(2 * (x - yes / (yes + no)).square().sum(1).mean() for x in (p, q))
    torch.testing.assert_close(training._distance([a, b]), wanted)
    assert math.isfinite(training.run_epoch()["loss"])


def test_link_prediction_has_no_probabilities_to_sharpen():
    assert resolve(task="link", method="ptdnet-plus", dataset="other").sharpen == 0
    with pytest.raises(ValueError, match="sharpen is for node classification"):
        trainer(task="link", method="ptdnet", sharpen=0.5)


def test_a_network_learns():
    assert (
        train(settings(method="basic", epochs=60, hidden=32), small(class_size=60, num_pairs=2000)).metrics["mean"]
        > 0.6
    )


def test_self_loops_are_there_once_and_only_where_wanted():
    g = dgl.graph(([0, 0, 1, 2, 2], [0, 1, 2, 2, 0]))
    for backbone, loops in (("gcn", 3), ("gat", 3), ("sage", 0), ("gin", 0)):
        src, dst = with_loops(g, backbone).edges()
        assert int((src == dst).sum()) == loops
        assert src[:3].tolist() == [0, 1, 2]
        assert dst[:3].tolist() == [1, 2, 0]


# Runs go on with the same bits.

KINDS = {
    "basic": {"method": "basic"},
    "ptdnet": {"method": "ptdnet", "rank": 0.01, "rank_k": 2},
    "gat": {"method": "ptdnet-wl", "backbone": "gat"},
    "dropedge": {"method": "dropedge"},
    "neuralsparse": {"method": "neuralsparse"},
    "ptdnet-plus": {"method": "ptdnet-plus"},
    "mini-batches": {"method": "ptdnet", "batch_size": 16, "fanouts": (3, 3), "backbone": "sage", "rank": 0.01},
    "several graphs": {"method": "ptdnet", "rank": 0.01},
    "links": {"method": "ptdnet", "task": "link", "rank": 0.01},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_resumes_to_the_same_bits(kind, tmp_path, monkeypatch):
    monkeypatch.setitem(Agreement.__init__.__kwdefaults__, "warmup", 2)
    data = several_graphs() if kind == "several graphs" else small()
    whole, first, second = (trainer(data, epochs=6, **KINDS[kind]) for _ in range(3))
    for _ in range(6):
        whole.run_epoch()
    for _ in range(3):
        first.run_epoch()
    torch.save(first.state_dict(), tmp_path / "state.pt")
    torch.rand(7)
    second.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    for _ in range(3):
        second.run_epoch()
    assert same_bits(whole.state_dict(), second.state_dict())
    assert same_bits(whole.finish()["result"] | {"epoch_seconds": 0}, second.finish()["result"] | {"epoch_seconds": 0})


def test_a_run_that_was_ended_goes_on(tmp_path, monkeypatch):
    s, data = settings(method="ptdnet-plus", seeds=3, epochs=4), small()
    expected = train(s, data).metrics
    calls = 0

    def fails(self):
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt
        return whole_epoch(self)

    whole_epoch = Trainer.run_epoch
    monkeypatch.setattr("dgl_ptdnet.train.folder._CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(Trainer, "run_epoch", fails)
    with pytest.raises(KeyboardInterrupt):
        train(s, data, out=tmp_path)
    assert not (tmp_path / "metrics.json").exists()
    assert same_bits(train(s, data, out=tmp_path).metrics | {"epoch_seconds": 0}, expected | {"epoch_seconds": 0})
    total = calls
    assert total < 12 + 1 + 4  # 3 seeds of 4 epochs, the one that failed, and not all of its seed again
    assert same_bits(train(s, data, out=tmp_path).metrics | {"epoch_seconds": 0}, expected | {"epoch_seconds": 0})
    assert calls == total
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(row["seed"], row["epoch"]) for row in rows] == [(s, e) for s in range(3) for e in range(4)]


def test_tensorboard_gets_every_figure_where_it_is_installed(tmp_path, monkeypatch):
    written = []

    class Board:
        def __init__(self, path, epoch):
            written.append((path, epoch))

        def add_scalar(self, name, value, epoch):
            written.append((name, epoch, value))

        def close(self):
            written.append("closed")

    monkeypatch.setattr("dgl_ptdnet.train.folder._tensorboard", Board)
    result = train(settings(method="ptdnet", epochs=2), small(), out=tmp_path)
    assert written[0] == (tmp_path / "tensorboard" / "seed-0", 0)
    assert written[-1] == "closed"
    history = result.seeds[0]["history"]
    for name, value in (("val", history[1]["val"]), ("kept/1", history[1]["kept"][1])):
        assert (name, 1, value) in written


def test_samples_are_the_same_in_every_process():
    code = """
import dgl, torch
from dgl_ptdnet.train import resolve, train
g = dgl.rand_graph(3000, 60_000)
g = dgl.graph((torch.arange(60_000) % 3000, torch.arange(60_000) * 7919 % 3000))
g.ndata["feat"], g.ndata["label"] = torch.arange(9000.0).view(3000, 3).sin(), torch.arange(3000) % 3
s = resolve(method="basic", seeds=1, epochs=2, batch_size=500, fanouts=[3, 3], threads=2)
print(train(s, g).seeds[0]["history"][-1]["loss"])
"""
    environment = {**os.environ, "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", code]
    runs = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    assert len({run.communicate()[0] for run in runs}) == 1  # beside each other, so that their threads race
    assert not any(run.returncode for run in runs)


def test_a_run_whose_data_has_changed_is_refused(tmp_path):
    train(settings(method="ptdnet"), small(), out=tmp_path)
    again = train(settings(method="ptdnet"), small(), out=tmp_path)
    assert again.metrics == json.loads((tmp_path / "metrics.json").read_text())
    other = small(num_pairs=299)
    for use in (lambda: train(settings(method="ptdnet"), other, out=tmp_path), lambda: load_run(tmp_path, data=other)):
        with pytest.raises(ValueError, match=r"was trained on other data: .* has changed since"):
            use()
    assert load_run(tmp_path, data=small()).epoch == 0


def test_a_folder_is_for_one_process_and_leftovers_are_taken_away(tmp_path):
    partial = tmp_path / ".dgl-ptdnet-checkpoint.pt.abcdefgh"  # of a process that was killed as it wrote
    partial.write_bytes(b"half")
    train(settings(method="basic"), small(), out=tmp_path)
    assert not partial.exists()
    with locked(tmp_path), pytest.raises(ValueError, match=r"another process is at work in .*\. Wait for it"):
        train(settings(method="basic"), small(), out=tmp_path)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_broken_metrics_are_made_anew(content, tmp_path):
    whole = train(settings(method="basic"), small(), out=tmp_path).metrics
    (tmp_path / "metrics.json").write_text(content)
    assert load_run(tmp_path, data=small()).task.metric == "accuracy"
    assert train(settings(method="basic"), small(), out=tmp_path).metrics == whole
    assert json.loads((tmp_path / "metrics.json").read_text()) == whole


def test_files_of_a_run_in_each_other_s_place_are_named(tmp_path):
    train(settings(method="basic"), small(), out=tmp_path)
    model, checkpoint = tmp_path / "model-0.pt", tmp_path / "checkpoint.pt"
    before = model.read_bytes(), checkpoint.read_bytes()
    model.write_bytes(before[1])
    with pytest.raises(ValueError, match=r"model-0.pt is broken or not of this version \(it has no model\)"):
        load_run(tmp_path, data=small())
    checkpoint.write_bytes(before[0])
    with pytest.raises(ValueError, match=r"checkpoint.pt is broken .*\(it has no finished and no running\)"):
        train(settings(method="basic"), small(), out=tmp_path)
    (tmp_path / "settings.toml").write_text("")
    with pytest.raises(ValueError, match=r"settings.toml has no dataset, backbone, .*: it is not whole"):
        load_run(tmp_path, data=small())


def test_a_loss_that_is_no_number_ends_a_run_and_a_sweep_goes_on(tmp_path):
    with pytest.raises(ValueError, match=r"the loss is (nan|inf) in epoch \d of seed 0. Train with a lower lr \(it is"):
        train(settings(method="basic", lr=1e30, epochs=9), small())
    (tmp_path / "space.toml").write_text("lr = [1e30, 0.01]")
    sweep(settings(method="basic", epochs=9), tmp_path, trials=4, data=small(), space=tmp_path / "space.toml")
    rows = [json.loads(line) for line in (tmp_path / "trials.jsonl").read_text().splitlines()]
    assert {row["validation"] > 0 for row in rows if row["lr"] == 0.01} == {True}
    assert {row["validation"] for row in rows if row["lr"] != 0.01} <= {0.0}


def test_the_weight_of_consistency_rises():
    apart = {"method": "dropedge", "samples": 2, "consistency": 5.0, "epochs": 2}
    losses = {}
    for warm_up in (0, 1, 2, 1000):
        t = trainer(**apart, consistency_warm_up=warm_up)
        losses[warm_up] = t.run_epoch()["loss"]
    assert losses[0] == losses[1] > losses[2] > losses[1000]
    alone = trainer(**{**apart, "consistency": 0.0}).run_epoch()["loss"]
    assert losses[2] == pytest.approx((losses[0] + alone) / 2, rel=1e-5)


def test_links_are_not_pruned_and_want_some_edges():
    t = trainer(task="link", method="ptdnet")
    t.run_epoch()
    with pytest.raises(ValueError, match="prune is for node classification"):
        t.denoised()
    with pytest.raises(ValueError, match="has too few: there must be 20"):
        trainer(small(num_pairs=19), task="link", method="basic")
    with pytest.raises(ValueError, match="link prediction is for one graph; several has 4"):
        trainer(several_graphs(), task="link", method="basic")
    node = trainer(method="ptdnet")
    node.run_epoch()
    with pytest.raises(ValueError, match="threshold must be a finite number; got nan"):
        node.denoised(math.nan)


def test_noise_edges_are_never_links_to_be_found():
    noisy = small()
    noisy.graphs = [add_noise_edges(noisy.graph, 200, seed=0)]
    task = make_task(noisy, settings(task="link", method="basic"), 0)
    real = {tuple(pair) for pair in torch.stack(small().graph.edges(), 1).tolist()}
    for index, truth in task.held.values():
        pairs = torch.stack([index.src, index.dst], 1)[truth > 0].tolist()
        assert {tuple(pair) for pair in pairs} <= real
    assert task.parts[0].source.num_edges() == 2 * (300 - 45 + 200)


def test_more_singular_values_than_nodes_are_all_of_them():
    losses = []
    for k in (small().graph.num_nodes(), 10_000):
        t = trainer(method="ptdnet", rank=0.1, rank_k=k)
        losses.append(t.run_epoch()["loss"])
    assert losses[0] == losses[1]


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults as Linux does, and wants glibc")
def test_epochs_get_no_fresh_memory():
    g = dgl.graph((torch.arange(4000), torch.arange(4000).roll(1)))
    g.ndata["feat"], g.ndata["label"] = torch.rand(4000, 1000), torch.arange(4000) % 3  # 16 MB
    t = trainer(Dataset.from_graphs(g), method="basic", hidden=64)
    for _ in range(3):
        t.run_epoch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    t.run_epoch()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000  # of 4 KB; dropout alone makes 4,000


def test_the_caller_s_number_of_threads_stays(tmp_path, threads):
    threads(2)
    train(settings(method="ptdnet"), small(), out=tmp_path)
    run = load_run(tmp_path, data=small())
    run.evaluate("test"), run.denoised()
    assert torch.get_num_threads() == 2


def test_other_settings_are_refused(tmp_path):
    train(settings(method="basic"), small(), out=tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"epochs = 3 there, 5 here.*another --out"):
        train(settings(method="basic", epochs=5), small(), out=tmp_path)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty, and not a run"):
        train(settings(method="basic"), small(), out=tmp_path / "sub")


def test_a_file_is_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, "old")
    monkeypatch.setattr("os.replace", lambda *args: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_saved_run_tests_the_same(tmp_path):
    for method in ("ptdnet", "ptdnet-plus"):
        s = settings(method=method, seeds=2, epochs=3, noise_edges=50)
        result = train(s, small(), out=tmp_path / method)
        for seed in range(2):
            assert load_run(tmp_path / method, seed, small()).evaluate("test").metric == result.metrics["test"][seed]
        written = json.loads((tmp_path / method / "metrics.json").read_text())
        for val in ([0.1, 0.2], [0.2, 0.1], None):  # the best in validation; the first, where the run has not ended
            path = tmp_path / method / "metrics.json"
            path.write_text(json.dumps({**written, "val": val})) if val else path.unlink()
            assert load_run(tmp_path / method, data=small()).seed == (1 if val == [0.1, 0.2] else 0)
    with pytest.raises(ValueError, match="no model of seed 7"):
        load_run(tmp_path / "ptdnet", 7, small())


# Early stopping.


def rows(trainer, train, val):
    for k, (of_train, of_val) in enumerate(zip(train, val)):
        trainer.history.append({"epoch": k, "train": of_train, "val": of_val, "val_loss": 1.0, "seconds": 0.0})
    best = max(range(len(val)), key=lambda k: (val[k], -k))
    trainer.best = {"epoch": best, "val": val[best], "val_loss": 1.0}
    return trainer


def test_patience_ends_a_run_that_has_trained():
    given = {"epochs": 100, "patience": 5, "min_epochs": 10}
    assert rows(trainer(**given), [0.9] * 15, [0.5] * 15).done
    assert not rows(trainer(**given), [0.9] * 14, [0.5] * 14).done
    assert not rows(trainer(**given), [0.9] * 20, [0.5] * 19 + [0.6]).done


def test_patience_cannot_end_a_run_before_it_has_trained():
    given = {"epochs": 1000, "patience": 5, "min_epochs": 10}
    assert not rows(trainer(**given), [0.25] * 500, [0.2] * 500).done
    assert not rows(trainer(**given), [0.25] * 500 + [0.9] * 5, [0.2] * 505).done
    assert rows(trainer(**given), [0.25] * 500 + [0.9] * 6, [0.2] * 506).done
    assert not rows(trainer(epochs=1000), [0.9] * 999, [0.5] * 999).done
    assert rows(trainer(epochs=1000), [0.9] * 1000, [0.5] * 1000).done


def test_the_best_epoch_is_that_of_validation():
    t = trainer(method="basic", epochs=10)
    while not t.done:
        t.run_epoch()
    best = max(t.history, key=lambda row: (row["val"], -row["val_loss"]))
    assert t.best["epoch"] == best["epoch"]
    assert t.finish()["result"]["val"] == best["val"]
    assert t.evaluate("val").metric == best["val"]


# Tasks.


@pytest.mark.parametrize("method", ["ptdnet", "ptdnet-plus"])
def test_labels_of_the_test_are_not_looked_at(method, monkeypatch):
    monkeypatch.setitem(Agreement.__init__.__kwdefaults__, "warmup", 2)
    data, other = small(), small()
    g = other.graph
    held = g.ndata["test_mask"]
    g.ndata["label"][held] = (g.ndata["label"][held] + 1) % 5
    a, b = trainer(data, method=method, epochs=5), trainer(other, method=method, epochs=5)
    for _ in range(5):
        a.run_epoch(), b.run_epoch()
    assert same_bits(a.model.state_dict(), b.model.state_dict())
    assert a.best["val_loss"] == b.best["val_loss"]


def test_metrics_are_those_of_scikit_learn():
    for data, average in ((several_graphs(), "micro"), (several_graphs(multilabel=False), None)):
        t = trainer(data, method="basic", exact_labels=False)
        t.run_epoch()
        scores = t.evaluate("val")
        out, label = scores.outputs[2], data.graphs[2].ndata["label"]
        if average:
            exact = data.graphs[2].ndata["label_exact"]
            assert scores.metric == scores.more["val_all"] == pytest.approx(f1_score(label, out > 0, average=average))
            assert scores.more["val_exact"] == pytest.approx(f1_score(label[exact], out[exact] > 0, average=average))
            expected = functional.binary_cross_entropy_with_logits(out, label)
        else:
            assert scores.metric == pytest.approx(accuracy_score(label, out.argmax(1)))
            expected = functional.cross_entropy(out, label)
        assert scores.loss == pytest.approx(float(expected), rel=1e-5)
    assert (
        trainer(several_graphs()).evaluate("val").metric == trainer(several_graphs()).evaluate("val").more["val_exact"]
    )


def test_only_exact_labels_train_unless_all_are_asked_for():
    data, other = several_graphs(), several_graphs()
    for g in other.graphs:
        unsure = ~g.ndata["label_exact"]
        g.ndata["label"][unsure] = 1 - g.ndata["label"][unsure]
    for exact in (True, False):
        a, b = (trainer(x, method="basic", exact_labels=exact) for x in (data, other))
        a.run_epoch(), b.run_epoch()
        assert same_bits(a.model.state_dict(), b.model.state_dict()) == exact


def test_several_graphs_are_steps_in_an_order_of_their_own():
    t = trainer(several_graphs(), method="ptdnet-plus")
    orders = set()
    for seed in range(8):
        torch.manual_seed(seed)
        orders.add(tuple(step.part for step in t.task.steps()))
    assert orders == {(0, 1), (1, 0)}
    assert t.bias.agreement is None
    t.run_epoch()


def test_link_prediction_never_sees_held_out_edges():
    data = small()
    g = data.graph
    for method in ("ptdnet", "ptdnet-plus"):
        t = trainer(data, method=method, task="link")
        assert isinstance(t.task, LinkPrediction)
        seen = {(min(u, v), max(u, v)) for u, v in zip(*(x.tolist() for x in t.task.parts[0].graph.edges())) if u != v}
        linked = {(min(u, v), max(u, v)) for u, v in zip(*(x.tolist() for x in g.edges()))}
        for split, share in (("val", 0.05), ("test", 0.10)):
            index, truth = t.task.held[split]
            held = list(zip(index.src.tolist(), index.dst.tolist()))
            assert sum(truth.bool().tolist()) == int(share * len(linked)) == len(held) / 2
            assert all(((u, v) in linked) == bool(y) for (u, v), y in zip(held, truth))
            assert not seen & set(held)
        assert len(seen) == len(linked) - int(0.05 * len(linked)) - int(0.10 * len(linked))
        t.run_epoch()
        for gate in t.model.gates:
            assert len(gate.gates) == t.task.parts[0].graph.num_edges()
        if method == "ptdnet-plus":
            alone = ptd.density_prior(t.task.parts[0].graph, g.ndata["feat"])
            assert same_bits(t.bias.priors[0].real, alone.real)
        positives = t.task.linked
        assert {(u, v) for u, v in zip(positives.src.tolist(), positives.dst.tolist()) if u < v} == seen
    assert {"test_ap", "val_ap"} <= train(settings(method="basic", task="link"), data).metrics.keys()


def test_link_prediction_learns():
    metrics = train(settings(method="basic", task="link", epochs=60, hidden=32), small(same_label=1.0)).metrics
    assert metrics["metric"] == "AUC"
    assert metrics["mean"] > 0.6


def test_gates_are_the_same_in_mini_batches():
    sampler = dgl.dataloading.NeighborSampler([4, 4])
    for method in ("ptdnet", "ptdnet-plus", "dropedge"):
        t = trainer(method=method, gate_mlp=True, dropout=0.0)
        gate, g = t.model.gates[0], t.task.parts[0].graph
        x = g.ndata["feat"]
        if t.bias is not None:
            t.bias.set_logits([torch.randn(g.num_edges())])
        inputs, _, blocks = sampler.sample(g, torch.arange(0, g.num_nodes(), 3))
        offset = gate.noise.clone()
        whole = gate(g, x)
        gate.noise.copy_(offset)
        part = gate(blocks[0], x[inputs])
        assert 0 < len(part) < len(whole)
        assert bool((part == whole[blocks[0].edata[dgl.EID]]).all())


def test_noise_and_seeds_count():
    s = settings(method="basic", seeds=2, noise_edges=40)
    a, b = train(s, small()), train(s, small())
    assert a.metrics["test"] == b.metrics["test"]
    assert (
        train(settings(method="basic", first_seed=1, noise_edges=40), small()).metrics["test"] == a.metrics["test"][1:]
    )


def test_the_denoised_graph_is_the_given_one_without_dropped_edges():
    data = small()
    loops = dgl.add_edges(data.graph, torch.tensor([3, 5]), torch.tensor([3, 5]))
    for backbone in ("gcn", "sage"):
        t = trainer(Dataset.from_graphs(loops), method="ptdnet", backbone=backbone)
        t.run_epoch()
        threshold = float(t.denoised()[0].edata["gate"].amax(1).median())
        (g,), (one,) = t.denoised(threshold), t.denoised(threshold, layer=1)
        assert 0 < one.num_edges() <= g.num_edges() < loops.num_edges()
        src, dst = loops.find_edges(g.edata[dgl.EID])
        assert (src == g.edges()[0]).all()
        assert (dst == g.edges()[1]).all()
        assert (g.edata["gate"].amax(1) > threshold).all()
        assert int((src == dst).sum()) == 2
        assert (g.ndata["label"] == loops.ndata["label"]).all()
    with pytest.raises(ValueError, match="layer must be from 1 to 2"):
        t.denoised(layer=3)
    with pytest.raises(ValueError, match="drops no edges"):
        trainer(method="basic").denoised()


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("method", ["ptdnet", "neuralsparse"])
def test_networks_take_sparse_rows_for_dense_ones(backbone, method):
    g = with_loops(small().graph, backbone)
    x = g.ndata["feat"] * (torch.arange(12) < 1)
    model = trainer(method=method, backbone=backbone, gate_normalize=backbone == "gcn").model.eval()
    torch.testing.assert_close(model(g, SparseRows(x)), model(g, x))


# Settings.


def test_settings_go_to_a_file_and_back(tmp_path):
    s = Settings(dataset='a "b" \\ c', layers=3, fanouts=(5, -1, 2), lr=1e-4, amp=True, gate_bias=-1)
    (tmp_path / "s.toml").write_text(s.to_toml())
    assert Settings(**read_settings(tmp_path / "s.toml")) == s


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learning_rat": 1}, "no setting 'learning_rat'"),
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"backbone": "gcnn"}, "Did you mean gcn"),
        ({"epochs": 2.5}, "epochs must be int"),
        ({"epochs": True}, "epochs must be int"),
        ({"lr": -1}, "lr must be a number of at least 0"),
        ({"lr": math.nan}, "lr must be a number"),
        ({"fanouts": [3]}, "a number for each of the 2 layers"),
        ({"fanouts": 3}, "fanouts must be a list of int"),
        ({"dropout": 1.0}, "at most 0.999"),
        ({"dropedge": 0.9999999}, "at most 0.999"),
        ({"sharpen": 0.01}, "sharpen must be 0 or at least 0.05"),
        ({"fanouts": [5, 0]}, "fanouts must be -1 .* or at least 1"),
        ({"threads": 100_000}, "threads must be at most 1024"),
        ({"first_seed": 2**40}, "seeds must end below 2.31"),
    ],
)
def test_wrong_settings_are_refused_by_name(given, message):
    with pytest.raises(ValueError, match=message):
        resolve(given)


def test_defaults_of_a_data_set_count_more_than_common_ones(tmp_path):
    (tmp_path / "common.toml").write_text("lr = 0.1\nhidden = 1\n[gat]\nhidden = 2\n[basic]\nlr = 0.2\n")
    (tmp_path / "cora.toml").write_text("epochs = 7\n[basic.gat]\nlr = 0.3\n")
    (tmp_path / "cora+50.toml").write_text("[basic]\nlr = 0.4\n")
    key = {"dataset": "Cora", "method": "basic", "backbone": "gat"}
    assert defaults(key, tmp_path) == {"lr": 0.3, "hidden": 2, "epochs": 7}
    assert defaults({**key, "noise_edges": 50}, tmp_path)["lr"] == 0.4
    assert defaults({**key, "backbone": "gcn"}, tmp_path) == {"lr": 0.2, "hidden": 1, "epochs": 7}
    assert defaults({**key, "dataset": "../x", "method": "mlp"}, tmp_path) == {"lr": 0.1, "hidden": 2}
    update_defaults(tmp_path / "cora.toml", "basic", "gat", {"lr": 0.5, "fanouts": [1, 2]})
    update_defaults(tmp_path / "cora.toml", "ptdnet-plus", "gcn", {"prior": False})
    assert read_toml(tmp_path / "cora.toml") == {
        "epochs": 7,
        "basic": {"gat": {"lr": 0.5, "fanouts": [1, 2]}},
        "ptdnet-plus": {"gcn": {"prior": False}},
    }
    (tmp_path / "common.toml").write_text("lr = 0.1\n[basic]\nlr = 0.2\n[link]\nlr = 0.5\n")
    assert defaults({**key, "task": "link"}, tmp_path)["lr"] == 0.5


@pytest.mark.parametrize("dataset", ["cora", "citeseer", "pubmed", "ppi", "synthetic", "other"])
def test_there_are_defaults_for_all(dataset):
    for method in METHODS:
        for backbone in BACKBONES:
            assert resolve(dataset=dataset, method=method, backbone=backbone).method == method
            resolve(dataset=dataset, method=method, backbone=backbone, task="link")


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
    assert found["dropedge"] == best["dropedge"]
    assert found["layers"] == s.layers  # the network that was searched for, not another
    assert "seeds" not in found
    with pytest.raises(ValueError, match="other settings"):
        sweep(settings(method="basic"), tmp_path / "parts", trials=6, data=data)


def test_names_are_exported():
    assert isinstance(make_task(small(), settings(), 0), NodeClassification)
    assert ptd.EdgeGate in type(trainer(method="ptdnet-plus").model.gates[0]).__mro__

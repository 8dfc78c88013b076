"""Node classification and link prediction."""

import math

import dgl
import pytest
import torch
from runs import same_bits, settings, several_graphs, small, trainer
from sklearn.metrics import accuracy_score, f1_score
from torch.nn import functional

import dgl_ptdnet as ptd
from dgl_ptdnet.data import add_noise_edges
from dgl_ptdnet.train import resolve, train
from dgl_ptdnet.train.tasks import LinkPrediction, make_task, with_loops


def test_link_prediction_has_no_probabilities_to_sharpen():
    assert resolve(task="link", method="ptdnet-plus", dataset="other").consistency_temperature == 0
    with pytest.raises(ValueError, match="consistency_temperature is for node classification"):
        trainer(task="link", method="ptdnet", consistency_temperature=0.5)


def test_self_loops_are_there_once_and_only_where_wanted():
    g = dgl.graph(([0, 0, 1, 2, 2], [0, 1, 2, 2, 0]))
    for backbone, loops in (("gcn", 3), ("gat", 3), ("sage", 0), ("gin", 0)):
        src, dst = with_loops(g, backbone).edges()
        assert int((src == dst).sum()) == loops
        assert src[:3].tolist() == [0, 1, 2]
        assert dst[:3].tolist() == [1, 2, 0]


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
            assert same_bits(t.bias.denoisers[0].real, alone.real)
        positives = t.task.linked
        assert {(u, v) for u, v in zip(positives.src.tolist(), positives.dst.tolist()) if u < v} == seen
    assert {"test_ap", "val_ap"} <= train(settings(method="basic", task="link"), data).metrics.to_json().keys()


def test_link_prediction_learns():
    metrics = train(settings(method="basic", task="link", epochs=60, hidden=32), small(same_label=1.0)).metrics
    assert metrics.metric == "AUC"
    assert metrics.mean > 0.6

"""The training loop."""

import math

import dgl
import pytest
import torch
from runs import same_bits, settings, several_graphs, small, trainer

import dgl_ptdnet as ptd
from dgl_ptdnet.data import Dataset
from dgl_ptdnet.train.results import BestState, Epoch
from dgl_ptdnet.train.tasks import NodeClassification, make_task


def test_draws_are_drawn_to_their_mean():
    a, b = torch.randn(2, 100, 5)
    found = trainer(method="ptdnet")._distance([a, b])
    torch.testing.assert_close(found, 2 * ((a - b) / 2).square().sum(1).mean())


def test_sharpened_draws_of_one_label_are_drawn_to_surer_probabilities():
    a, b = torch.randn(2, 100, 5).requires_grad_()
    found = trainer(method="ptdnet", consistency_temperature=0.5)._distance([a, b])
    p, q = a.softmax(1), b.softmax(1)
    target = ((p + q) / 2).detach() ** 2
    target = target / target.sum(1, keepdim=True)
    wanted = sum((x - target).square().sum(1).mean() for x in (p, q))
    torch.testing.assert_close(found, wanted)
    for x in (a, b):
        torch.testing.assert_close(*(torch.autograd.grad(y, x, retain_graph=True)[0] for y in (found, wanted)))


def test_sharpened_draws_of_several_labels_are_drawn_to_surer_probabilities():
    training = trainer(several_graphs(), method="ptdnet", gate_samples=2, consistency_temperature=0.25)
    a, b = torch.randn(2, 100, 3)
    p, q = a.sigmoid(), b.sigmoid()
    yes, no = ((p + q) / 2) ** 4, (1 - (p + q) / 2) ** 4
    wanted = sum(2 * (x - yes / (yes + no)).square().sum(1).mean() for x in (p, q))
    torch.testing.assert_close(training._distance([a, b]), wanted)
    assert math.isfinite(training.run_epoch().loss)


KINDS = {
    "basic": {"method": "basic"},
    "ptdnet": {"method": "ptdnet", "rank_weight": 0.01, "rank_k": 2},
    "gat": {"method": "ptdnet-wl", "backbone": "gat"},
    "dropedge": {"method": "dropedge"},
    "neuralsparse": {"method": "neuralsparse"},
    "ptdnet-plus": {"method": "ptdnet-plus"},
    "mini-batches": {"method": "ptdnet", "batch_size": 16, "fanouts": (3, 3), "backbone": "sage", "rank_weight": 0.01},
    "several graphs": {"method": "ptdnet", "rank_weight": 0.01},
    "links": {"method": "ptdnet", "task": "link", "rank_weight": 0.01},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_resumes_to_the_same_bits(kind, tmp_path):
    data = several_graphs() if kind == "several graphs" else small()
    whole, first, second = (trainer(data, epochs=6, agreement_warm_up=2, **KINDS[kind]) for _ in range(3))
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
    assert same_bits(whole.finish().result, second.finish().result)


def test_the_weight_of_consistency_rises():
    apart = {"method": "dropedge", "gate_samples": 2, "consistency_weight": 5.0, "epochs": 2}
    losses = {}
    for warm_up in (0, 1, 2, 1000):
        t = trainer(**apart, consistency_warm_up=warm_up)
        losses[warm_up] = t.run_epoch().loss
    assert losses[0] == losses[1] > losses[2] > losses[1000]
    alone = trainer(**{**apart, "consistency_weight": 0.0}).run_epoch().loss
    assert losses[2] == pytest.approx((losses[0] + alone) / 2, rel=1e-5)


def test_more_singular_values_than_nodes_are_all_of_them():
    losses = []
    for k in (small().graph.num_nodes(), 10_000):
        t = trainer(method="ptdnet", rank_weight=0.1, rank_k=k)
        losses.append(t.run_epoch().loss)
    assert losses[0] == losses[1]


def rows(trainer, train, val):
    for k, (of_train, of_val) in enumerate(zip(train, val)):
        trainer.history.append(Epoch(epoch=k, loss=1.0, train=of_train, val=of_val, val_loss=1.0, seconds=0.0))
    best = max(range(len(val)), key=lambda k: (val[k], -k))
    trainer.best = BestState(best, val[best], 1.0, {})
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
    best = max(t.history, key=lambda row: (row.val, -row.val_loss))
    assert t.best.epoch == best.epoch
    assert t.finish().result.val == best.val
    assert t.evaluate("val").metric == best.val


@pytest.mark.parametrize("method", ["ptdnet", "ptdnet-plus"])
def test_labels_of_the_test_are_not_looked_at(method):
    data, other = small(), small()
    g = other.graph
    held = g.ndata["test_mask"]
    g.ndata["label"][held] = (g.ndata["label"][held] + 1) % 5
    a, b = (trainer(x, method=method, epochs=5, agreement_warm_up=2) for x in (data, other))
    for _ in range(5):
        a.run_epoch(), b.run_epoch()
    assert same_bits(a.model.state_dict(), b.model.state_dict())
    assert a.best.val_loss == b.best.val_loss


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
    with pytest.raises(ValueError, match="prune needs learned gates, which basic has not"):
        trainer(method="basic").denoised()


def test_names_are_exported():
    assert isinstance(make_task(small(), settings(), 0), NodeClassification)
    assert ptd.EdgeGate in type(trainer(method="ptdnet-plus").model.gates[0]).__mro__

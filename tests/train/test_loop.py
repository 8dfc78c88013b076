"""The training loop."""

import math

import dgl
import pytest
import torch
from runs import same_bits, settings, several_graphs, small, trainer
from torch.nn import functional

import dgl_ptdnet as ptd
from dgl_ptdnet.data import Dataset
from dgl_ptdnet.train.loop import Trainer
from dgl_ptdnet.train.results import BestState, Epoch
from dgl_ptdnet.train.tasks import NodeClassification, Scores, make_task


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


# The loss, the optimizer and the schedules, by plain formulas.


def formula_of_the_loss(t, step, outputs):
    """The loss of a step from the outputs of every gate sample and the gates of the last."""
    s, (rows, labels) = t.settings, step.target
    mean = sum(outputs) / len(outputs)
    loss = functional.cross_entropy(mean[rows], labels)
    if s.gate_samples > 1:
        rise = min(1.0, (t.epoch + 1) / max(1, s.consistency_warm_up))
        p = [out.softmax(1) for out in outputs]
        sharp = (sum(p) / len(p)) ** (1 / s.consistency_temperature)
        target = sharp / sharp.sum(1, keepdim=True)
        loss = loss + rise * s.consistency_weight * sum((x - target).square().sum(1).mean() for x in p)
    for gate in t.model.gates:
        index, z = gate.last.edges.index, gate.gates
        num_edges = index.num_edges
        loss = loss + s.l0_weight * gate.penalty / num_edges
        dense = torch.zeros(index.num_src, index.num_dst).index_put(
            (index.src.long(), index.dst.long()), z, accumulate=True
        )
        loss = loss + s.rank_weight * torch.linalg.svdvals(dense)[: s.rank_k].sum()
    return loss


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat"])
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"l0_weight": 3.0},
        {"rank_weight": 0.5, "rank_k": 3},
        {"gate_samples": 3, "consistency_weight": 4.0, "consistency_temperature": 0.5, "consistency_warm_up": 4},
        {"l0_weight": 2.0, "rank_weight": 0.25, "gate_samples": 2, "consistency_temperature": 0.25},
    ],
    ids=str,
)
def test_the_loss_is_its_formula(given, backbone):
    t = trainer(method="ptdnet", backbone=backbone, **{"l0_weight": 0.0, "rank_weight": 0.0, **given})
    outputs = []
    t.model.register_forward_hook(lambda module, arguments, out: outputs.append(out.detach()))
    for _ in range(5):  # the low-rank term is exact after some steps
        outputs.clear()
        t.model.train()
        (step,) = t.task.steps()
        loss, _ = t._loss(step)
    assert len(outputs) == t.settings.gate_samples
    with torch.no_grad():
        torch.testing.assert_close(loss.detach(), formula_of_the_loss(t, step, outputs), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("method", ["basic", "dropedge", "neuralsparse", "mlp"])
def test_methods_without_a_penalty_have_the_loss_of_the_task(method):
    t = trainer(method=method, l0_weight=9.0, rank_weight=9.0)
    outputs = []
    t.model.register_forward_hook(lambda module, arguments, out: outputs.append(out.detach()))
    (step,) = t.task.steps()
    loss, _ = t._loss(step)
    rows, labels = step.target
    torch.testing.assert_close(loss.detach(), functional.cross_entropy(outputs[0][rows], labels))


def test_agreement_learns_by_its_own_loss_beside_that_of_the_task():
    t = trainer(method="ptdnet-plus", gate_samples=1)
    outputs = []
    t.model.register_forward_hook(lambda module, arguments, out: outputs.append(out.detach()))
    (step,) = t.task.steps()
    torch.manual_seed(5)
    t._loss(step)
    torch.manual_seed(5)
    t.model(step.graph, step.x)
    own = t.bias.agreement.loss(0).detach()
    torch.manual_seed(5)
    loss, _ = t._loss(step)
    rows, labels = step.target
    torch.testing.assert_close(loss.detach() - own, functional.cross_entropy(outputs[-1][rows], labels))


def test_every_parameter_has_the_rate_and_decay_of_its_part():
    rates = {"lr": 0.1, "weight_decay": 0.2, "gate_lr": 0.3, "agreement_lr": 0.4, "agreement_weight_decay": 0.5}
    for method in ("basic", "ptdnet", "ptdnet-plus"):
        t = trainer(method=method, gate_mlp=True, **rates)
        of_gates = {id(p) for gate in t.model.gates for p in gate.parameters()}
        of_agreement = {id(p) for p in t.bias.agreement.parameters()} if t.bias else set()
        found = {
            id(p): (group["lr"], group["weight_decay"]) for group in t.optimizer.param_groups for p in group["params"]
        }
        wanted = {id(p): (0.3, 0.0) if id(p) in of_gates else (0.1, 0.2) for p in t.model.parameters()}
        assert found == {**wanted, **dict.fromkeys(of_agreement, (0.4, 0.5))}
        assert bool(of_gates) == (method != "basic")
        assert type(t.optimizer) is torch.optim.Adam


@pytest.mark.parametrize("method", ["ptdnet", "ptdnet-plus", "neuralsparse"])
def test_temperature_and_the_rate_of_gates_follow_their_schedules(method, monkeypatch):
    t = trainer(method=method, epochs=6, tau=3.0, tau_decay=0.5, tau_minimum=0.4, gate_lr=0.6, gate_warm_up=3)
    seen = []

    def step(self, *arguments):
        seen.append((t.model.gates[0].tau, t.model.gates[-1].tau, t.optimizer.param_groups[1]["lr"]))
        return train_step(*arguments)

    train_step = t.train_step
    monkeypatch.setattr(Trainer, "train_step", step)
    while not t.done:
        t.run_epoch()
    wanted = [(3.0, 0.2), (1.5, 0.4), (0.75, 0.6), (0.4, 0.6), (0.4, 0.6), (0.4, 0.6)]
    assert seen == [(tau, tau, pytest.approx(rate)) for tau, rate in wanted]
    assert [group["lr"] for group in t.optimizer.param_groups][::2] == [
        group["lr"] for group in trainer(method=method).optimizer.param_groups
    ][::2]


@pytest.mark.parametrize(("method", "floor"), [("ptdnet-plus", 1.0), ("ptdnet", 0.0)])
def test_the_sage_of_ptdnet_plus_divides_by_at_least_one(method, floor):
    t = trainer(method=method, backbone="sage")
    layer, (part,) = t.model.layers[0].eval(), t.task.parts
    g, x, conv = part.graph, part.source.ndata["feat"], layer.conv
    z = torch.rand(g.num_edges()) * 0.1
    layer.gate.forward = lambda g, h, *rows: z
    sums = torch.zeros_like(x).index_add(0, g.edges()[1], z[:, None] * x[g.edges()[0]])
    total = torch.zeros(g.num_nodes()).index_add(0, g.edges()[1], z)
    means = sums / total.clamp(min=floor or 1e-12)[:, None]
    want = conv.fc_self(x) + conv.fc_neigh(means)
    torch.testing.assert_close(layer(g, x), want, rtol=1e-4, atol=1e-5)


def test_the_best_epoch_has_the_best_metric_then_the_least_loss(monkeypatch):
    scripted = [(0.5, 1.0), (0.6, 2.0), (0.6, 1.5), (0.6, 1.5), (0.5, 0.1)]
    t = trainer(method="basic", epochs=5)
    scores = iter(scripted)
    monkeypatch.setattr(t, "evaluate", lambda split: Scores(*next(scores), {}, {}))
    while not t.done:
        t.run_epoch()
    assert [(row.val, row.val_loss) for row in t.history] == scripted
    assert (t.best.epoch, t.best.val, t.best.val_loss) == (2, 0.6, 1.5)

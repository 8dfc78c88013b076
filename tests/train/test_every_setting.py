"""Every setting of a run is used: each is changed alone, and what it is for changes. What the loss, the optimizer and
the schedules are exactly is in test_loop.py."""

from dataclasses import fields

import dgl
import pytest
import torch
from runs import settings, several_graphs, small, trainer

from dgl_ptdnet.data import add_noise_edges, planted, synthetic
from dgl_ptdnet.train import Settings, train
from dgl_ptdnet.train.run import make_data
from dgl_ptdnet.train.tasks import make_task


def edges(**given):
    return [x.tolist() for x in make_data(settings(**given), 0, small()).graph.edges()]


def parameters(**given):
    """The names and shapes of all parameters of the network."""
    return {name: tuple(x.shape) for name, x in trainer(**given).model.named_parameters()}


def gate(**given):
    return trainer(**{"method": "ptdnet", **given}).model.gates[0]


def logits(**given):
    """The gates of the first layer at the start, in evaluation."""
    t = trainer(**{"method": "ptdnet", **given})
    t.evaluate("val")
    return t.model.gates[0].gates.tolist()


def losses(data=None, **given):
    t = trainer(data, **{"epochs": 4, **given})
    while not t.done:
        t.run_epoch()
    return [row.loss for row in t.history]


def groups(**given):
    return [{k: x for k, x in group.items() if k != "params"} for group in trainer(**given).optimizer.param_groups]


def steps(**given):
    """How many edges each layer has in each step of an epoch."""
    torch.manual_seed(0)
    dgl.seed(0)
    found = make_task(small(), settings(**given), 0).steps()
    return [[block.num_edges() for block in step.graph] if isinstance(step.graph, list) else [] for step in found]


def trained(data=None, **given):
    result = train(settings(**{"method": "basic", **given}), data or small())
    return [run.result.seed for run in result.seeds], [len(run.history) for run in result.seeds]


def ended(**given):
    """The number of epochs of a run whose validation never improves."""
    t = trainer(method="basic", **{"epochs": 30, "lr": 0.0, "gate_lr": 0.0, "dropout": 0.0, **given})
    t.task.chance = -1.0  # so that training counts as begun
    while not t.done:
        t.run_epoch()
    return t.epoch


def prior(**given):
    return trainer(method="ptdnet-plus", **given).bias.logits[0].tolist()


def agreement(**given):
    found = trainer(**{"method": "ptdnet-plus", **given}).bias.agreement
    return found and (found.homophily, found.warmup, found.ramp)


SAMPLED = {"method": "ptdnet", "gate_samples": 2, "consistency_weight": 1.0}
PLUS = {"method": "ptdnet-plus"}
BATCHES = {"backbone": "sage", "method": "basic", "batch_size": 20}
USES = {  # for each setting: what is looked at, what is given, and two values of the setting
    "dataset": (lambda **given: make_data(settings(**given), 0).graph.num_nodes(), {}, "synthetic", "planted"),
    "backbone": (lambda **given: str(trainer(**given).model), {"method": "ptdnet"}, "gcn", "sage"),
    "method": (lambda **given: str(trainer(**given).model), {}, "basic", "ptdnet"),
    "task": (lambda **given: type(trainer(**given).task).__name__, {"method": "basic"}, "node", "link"),
    "noise_edges": (edges, {}, 0, 7),
    "noise_kind": (edges, {"noise_edges": 50}, "uniform", "hubs"),
    "seeds": (trained, {}, 1, 2),
    "first_seed": (trained, {}, 0, 3),
    "layers": (parameters, {"method": "basic"}, 2, 3),
    "hidden": (parameters, {"method": "basic"}, 8, 9),
    "heads": (parameters, {"backbone": "gat", "method": "basic"}, 2, 3),
    "out_heads": (parameters, {"backbone": "gat", "method": "basic"}, 1, 2),
    "residual": (parameters, {"method": "basic"}, False, True),
    "embedding": (parameters, {"method": "basic", "task": "link"}, 4, 5),
    "dropout": (losses, {"method": "basic"}, 0.0, 0.5),
    "epochs": (trained, {}, 2, 3),
    "lr": (groups, PLUS, 0.1, 0.2),
    "weight_decay": (groups, PLUS, 0.1, 0.2),
    "patience": (ended, {"min_epochs": 1}, 0, 4),
    "min_epochs": (ended, {"patience": 4}, 1, 9),
    "exact_labels": (lambda **given: losses(several_graphs(), **given), {"method": "basic"}, True, False),
    "amp": (losses, {"method": "basic"}, False, True),
    "batch_size": (steps, BATCHES, 20, 30),
    "fanouts": (steps, BATCHES, (3, 3), (1, 3)),
    "threads": (lambda **given: trainer(**given).threads, {}, 1, 2),
    "control": (parameters, {"method": "basic"}, "none", "node-mlp"),
    "dropedge_rate": (lambda **given: gate(**given).p, {"method": "dropedge"}, 0.1, 0.2),
    "neuralsparse_k": (lambda **given: gate(**given).k, {"method": "neuralsparse"}, 2, 3),
    "gate_hidden": (parameters, {"method": "ptdnet"}, 4, 5),
    "gate_mlp": (parameters, PLUS, False, True),
    "gate_bias": (lambda **given: gate(**given).c.item(), {}, 0.0, 1.0),
    "gate_symmetric": (logits, {}, False, True),
    "gate_normalize": (logits, {}, False, True),
    "gate_lr": (groups, PLUS, 0.1, 0.2),
    "gate_warm_up": (losses, {"method": "ptdnet"}, 0, 4),
    "tau": (losses, {"method": "ptdnet"}, 1.0, 2.0),
    "tau_decay": (losses, {"method": "ptdnet"}, 0.9, 0.5),
    "tau_minimum": (losses, {"method": "ptdnet", "tau": 1.0, "tau_decay": 0.1}, 0.9, 0.1),
    "l0_weight": (losses, {"method": "ptdnet"}, 0.0, 0.1),
    "rank_weight": (losses, {"method": "ptdnet"}, 0.0, 0.1),
    "rank_k": (losses, {"method": "ptdnet", "rank_weight": 0.1}, 1, 4),
    "gate_samples": (losses, {**SAMPLED, "consistency_weight": 0.0}, 1, 2),
    "consistency_weight": (losses, SAMPLED, 0.0, 1.0),
    "consistency_warm_up": (losses, SAMPLED, 0, 4),
    "consistency_temperature": (losses, SAMPLED, 0.0, 0.5),
    "prior": (prior, {}, True, False),
    "agreement": (lambda **given: agreement(**given) is None, {}, True, False),
    "agreement_lr": (groups, PLUS, 0.1, 0.2),
    "agreement_weight_decay": (groups, PLUS, 0.1, 0.2),
    "agreement_homophily": (agreement, {}, 0.7, 0.8),
    "agreement_warm_up": (agreement, {}, 1, 2),
    "agreement_ramp": (agreement, {}, 1, 2),
}


@pytest.mark.parametrize("name", [setting.name for setting in fields(Settings) if setting.name != "device"])
def test_a_setting_that_changes_alone_changes_what_it_is_for(name):
    look, given, one, other = USES[name]
    first, again, second = (look(**{**given, name: value}) for value in (one, one, other))
    assert first == again
    assert first != second


def test_the_device_reaches_the_task():
    with pytest.raises(ValueError, match="device 'meta' cannot be used here"):
        trainer(method="basic", device="meta")


@pytest.mark.parametrize("control", ["node-mlp", "shut", "shut-node-mlp", "self-training"])
def test_each_control_is_what_its_name_says(control):
    t = trainer(method="basic", control=control)
    assert bool(t.model.mlps) == ("node-mlp" in control)
    t.evaluate("val")
    index, z = t.model.gates[-1].last.edges.index, t.model.gates[-1].gates
    assert bool((z[index.src != index.dst] == 0).all()) == ("shut" in control)
    assert (t.teacher is not None) == (control == "self-training")


@pytest.mark.parametrize("kind", ["uniform", "heterophilous", "similar", "hubs"])
def test_the_data_is_the_data_set_with_noise_of_its_kind(kind):
    s = settings(dataset="planted", noise_edges=30, noise_kind=kind)
    for seed in (0, 1):
        found, want = make_data(s, seed).graph, add_noise_edges(planted(seed).graph, 30, seed=seed, kind=kind)
        assert all(torch.equal(a, b) for a, b in zip(found.edges(), want.edges()))
        assert torch.equal(found.ndata["feat"], want.ndata["feat"])
    assert make_data(settings(dataset="synthetic"), 2).graph.num_edges() == synthetic(2).graph.num_edges()

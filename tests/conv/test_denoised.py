"""The module around a convolution: its gates, copies, errors; graphs stay as they were."""

import copy
import io
import pickle

import dgl
import pytest
import torch
from conv_inputs import CONVS, IN, OPEN, OUT, Fixed, gate_values, make, plain_graph
from dgl.nn import (
    GraphConv,
    SGConv,
)
from torch import nn

import dgl_ptdnet as ptd


def test_a_subclass_with_its_own_forward_is_not_taken_for_its_base():
    class Twice(GraphConv):
        def forward(self, graph, feat, weight=None, edge_weight=None):
            return 2 * super().forward(graph, feat, weight, edge_weight)

    g, conv, h = dgl.add_self_loop(plain_graph()), Twice(IN, OUT), torch.randn(13, IN)
    layer = ptd.Denoised(conv, Fixed(torch.ones(g.num_edges())))
    torch.testing.assert_close(layer(g, h), conv(g, h))


@pytest.mark.parametrize("name", [*CONVS, "SGConv"])
def test_an_error_inside_leaves_the_graph_as_it_was(name):
    def fail(*_):
        raise RuntimeError("on purpose")

    conv = SGConv(IN, OUT, allow_zero_in_degree=True) if name == "SGConv" else make(name)
    for module in conv.modules():
        if isinstance(module, nn.Linear):
            module.forward = fail
    if name.startswith("GraphConv"):
        conv._activation = fail
    g = plain_graph()
    g.ndata["mine"], g.edata["mine"] = torch.ones(13), torch.ones(g.num_edges())
    with pytest.raises(RuntimeError, match="on purpose"):
        ptd.Denoised(conv, ptd.EdgeGate(IN))(g, torch.randn(13, IN))
    assert set(g.ndata) == set(g.edata) == {"mine"}


def test_the_graph_is_not_changed_by_a_call():
    g = dgl.add_self_loop(plain_graph())
    for name in CONVS:
        ptd.denoise(make(name))(g, torch.randn(13, IN))
    assert not set(g.ndata)
    assert not set(g.edata)


@pytest.mark.parametrize("name", CONVS)
def test_copies_and_checkpoints(name, tmp_path):
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    layer = ptd.denoise(make(name))
    (layer(g, h).sum() + ptd.penalty(layer, edges=1.0, rank=1.0)).backward()
    layer.eval()
    want = layer(g, h)
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), layer.to("cpu")):
        assert torch.equal(other(g, h), want)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    fresh = ptd.denoise(make(name, seed=5)).eval()
    fresh.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    assert torch.equal(fresh(g, h), want)
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    assert torch.equal(torch.load(buffer, weights_only=False)(g, h), want)


def test_wrong_gates_are_refused():
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    with pytest.raises(
        ValueError, match=r"the gate must return a tensor \[E\], a number for each of the 63 edges; got shape \(3,\)"
    ):
        ptd.Denoised(GraphConv(IN, OUT), Fixed(torch.ones(3)))(g, h)
    with pytest.raises(ValueError, match=r"source features \[N, 5\]; got shape \(13, 6\)"):
        ptd.Denoised(GraphConv(IN, OUT), ptd.EdgeGate(5))(g, h)
    with pytest.raises(ValueError, match="floor must not be negative"):
        ptd.Denoised(GraphConv(IN, OUT), ptd.EdgeGate(IN), floor=-1)


@pytest.mark.parametrize("gate", [ptd.DropEdge(0.9), ptd.NeuralSparse(IN, k=2), ptd.EdgeGate(IN, bias=-9.0), "own"])
def test_gates_reports_what_the_layer_used_with_self_loops_open(gate):
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    gate = Fixed(gate_values(63, torch.float32)) if gate == "own" else gate
    layer = ptd.Denoised(dgl.nn.GraphConv(IN, OUT, norm="none", bias=False, **OPEN), gate)
    out = layer(g, h)
    (name, z), *others = ptd.gates(torch.nn.Sequential(layer)).items()
    assert (name, others) == ("0.gate", [])
    src, dst = g.edges()
    assert bool((z[src == dst] == 1).all())
    assert z[src != dst].min() < 0.5
    want = torch.zeros(13, IN).index_add(0, dst, z[:, None] * h[src]) @ layer.conv.weight
    torch.testing.assert_close(out, want)
    if not isinstance(gate, Fixed):
        assert gate.gates is layer.gates


def test_gates_that_are_asked_to_gate_self_loops_do():
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    layer = ptd.Denoised(make("GraphConv both"), Fixed(torch.full((63,), 0.25), self_loops=True))
    layer(g, h)
    assert layer.gates.unique().tolist() == [0.25]


@pytest.mark.parametrize("order", ["inference first", "training first"])
@pytest.mark.parametrize("conv", ["GraphConv both", "SAGEConv mean", "GATConv", "GATv2Conv", "GINConv sum"])
@pytest.mark.parametrize(
    "make_gate",
    [
        lambda: ptd.EdgeGate(IN, symmetric=True),
        lambda: ptd.EdgeGate(IN, similarity=True),
        lambda: ptd.DropEdge(0.5),
        lambda: ptd.NeuralSparse(IN, 2),
    ],
    ids=["symmetric", "similarity", "DropEdge", "NeuralSparse"],
)
def test_inference_mode_and_training_follow_each_other_on_one_graph(make_gate, conv, order):
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    layer = ptd.Denoised(make(conv), make_gate())
    gated = isinstance(layer.gate, ptd.EdgeGate)

    def train():
        loss = layer(g, h).sum() + (ptd.penalty(layer, edges=1.0, rank=1.0) if gated else 0)
        loss.backward()
        assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)

    if order == "training first":
        train()
    with torch.inference_mode():
        for features in (h, torch.randn(13, IN)):
            layer(g, features)
            ptd.prune(g, layer.gate, features)
        if gated:
            ptd.penalty(layer, edges=1.0, rank=1.0)
    train()

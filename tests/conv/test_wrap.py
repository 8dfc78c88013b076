"""Gates for every convolution of a model."""

import dgl
import pytest
import torch
from conv_inputs import IN, OUT, Fixed, pairs, plain_graph
from dgl.nn import (
    APPNPConv,
    EdgeConv,
    GATConv,
    GINConv,
    GraphConv,
    HeteroGraphConv,
    SAGEConv,
)
from torch import nn

import dgl_ptdnet as ptd


def test_heterograph():
    g = dgl.heterograph(
        {("a", "goes", "b"): pairs(9, 7, 30), ("b", "back", "a"): pairs(7, 9, 20), ("a", "self", "a"): pairs(9, 9, 25)}
    )
    h = {"a": torch.randn(9, IN), "b": torch.randn(7, IN)}
    mods = {"goes": GraphConv(IN, OUT), "back": SAGEConv(IN, OUT, "mean"), "self": GINConv(nn.Linear(IN, OUT), "max")}
    model = ptd.denoise(HeteroGraphConv(dict(mods)))
    assert ptd.gates(model) == {}
    model(g, h)
    assert sorted(ptd.gates(model)) == ["mods.back.gate", "mods.goes.gate", "mods.self.gate"]
    for etype, layer in model.mods.items():
        layer.gate = Fixed(torch.ones(g.num_edges(etype)))
    assert all(model.mod_dict[etype] is layer for etype, layer in model.mods.items())
    want = HeteroGraphConv(mods)(g, h)
    for ntype, value in model(g, h).items():
        torch.testing.assert_close(value, want[ntype])


def test_denoise_wraps_every_convolution_and_keeps_parameters(caplog):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.again = GraphConv(IN, 8), None
            self.layers = nn.ModuleList([SAGEConv(8, 8, "mean"), nn.ReLU(), GATConv(8, 2, 4)])
            self.deep = nn.ModuleDict({"gin": GINConv(nn.Sequential(nn.Linear(8, 8), nn.ReLU()), "sum")})
            self.same = self.first

    net = Net()
    before = dict(net.named_parameters())
    with caplog.at_level("INFO", logger="dgl_ptdnet"):
        assert ptd.denoise(net) is net
    for name in ("first (GraphConv)", "layers.0 (SAGEConv)", "layers.2 (GATConv)", "deep.gin (GINConv)"):
        assert f"denoised {name}" in caplog.text
    assert net.first is net.same
    after = {id(p) for p in net.parameters()}
    assert all(id(p) in after for p in before.values())
    assert [net.layers[0].gate.mlp.in_feats, net.deep["gin"].gate.mlp.in_feats] == [(8, 8), (8, 8)]
    g = dgl.add_self_loop(plain_graph())
    h = net.deep["gin"](g, net.layers[2](g, net.layers[0](g, net.first(g, torch.randn(13, IN)))).flatten(1))
    (h.sum() + ptd.penalty(net, edges=1e-3, rank=1e-3)).backward()
    assert all(p.grad is not None for name, p in net.named_parameters() if "low_rank" not in name)
    with pytest.raises(ValueError, match="no DGL convolution that is neither denoised already nor in skip"):
        ptd.denoise(net)  # all are wrapped


def test_denoise_refuses_by_name_and_leaves_the_model_as_it_was():
    model = nn.ModuleDict({"good": GraphConv(IN, OUT), "bad": EdgeConv(IN, OUT), "unknown": APPNPConv(2, 0.1)})
    with pytest.raises(ValueError, match=r"bad \(EdgeConv\): its forward takes no edge_weight.*unknown \(APPNPConv\)"):
        ptd.denoise(model)
    assert type(model["good"]) is GraphConv

    def gate_for_even_sizes(size):
        if size % 2:
            raise ValueError("on purpose")
        return ptd.EdgeGate(size)

    layers = nn.ModuleList([GraphConv(IN, 3), GraphConv(3, OUT)])
    with pytest.raises(ValueError, match="on purpose"):
        ptd.denoise(layers, gate_for_even_sizes)
    assert [type(layer) for layer in layers] == [GraphConv, GraphConv]
    ptd.denoise(model, skip=["bad", "unknown"])
    assert [type(x).__name__ for x in model.values()] == ["Denoised", "EdgeConv", "APPNPConv"]
    with pytest.raises(ValueError, match="skip names no convolution"):
        ptd.denoise(GraphConv(IN, OUT), skip=["x"])
    with pytest.raises(TypeError, match="EdgeConv cannot be denoised"):
        ptd.Denoised(EdgeConv(IN, OUT), ptd.EdgeGate(IN))
    with pytest.raises(TypeError, match="denoised already"):
        ptd.Denoised(ptd.denoise(GraphConv(IN, OUT)), ptd.EdgeGate(IN))


def test_denoise_with_another_gate():
    model = ptd.denoise(nn.ModuleList([GraphConv(IN, OUT)]), lambda size: ptd.DropEdge(0.5)).eval()
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    torch.testing.assert_close(model[0](g, h), model[0].conv(g, h))


def test_denoise_with_a_denoiser_starts_gates_from_it_and_trains_it_along():
    g, x = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    denoiser = ptd.Denoiser(g, x, torch.arange(13) % 2, torch.arange(13) < 6)
    model = ptd.denoise(nn.ModuleList([GraphConv(IN, IN), SAGEConv(IN, OUT, "mean")]), denoiser)
    assert [layer.floor for layer in model] == [0.0, 1.0]
    assert model[0].denoiser is denoiser
    assert len(model) == 2
    assert {id(p) for p in denoiser.parameters()} <= {id(p) for p in model.parameters()}
    model.eval()
    for layer in model:
        layer(g, x)
        src, dst = g.edges()
        want = (torch.sigmoid(denoiser.bias) * 1.2 - 0.1).clamp(0, 1)
        torch.testing.assert_close(layer.gates[src != dst], want[src != dst])
        assert layer.gate.symmetric
    alone = ptd.denoise(GraphConv(IN, OUT), denoiser)
    assert alone.denoiser is denoiser
    assert alone(g, x).shape == (13, OUT)

"""A layer and its gate share their products where nobody can notice, and only there."""

import dgl
import pytest
import torch
from conv_inputs import IN, make, plain_graph

import dgl_ptdnet as ptd
from dgl_ptdnet.ops import linear_maps


@pytest.mark.parametrize("name", ["GraphConv both", "SAGEConv mean", "GATConv", "GATv2Conv"])
def test_layer_and_gate_share_their_products(name, monkeypatch):
    calls = []
    monkeypatch.setattr(
        "dgl_ptdnet.conv.call.linear_maps", lambda x, maps: calls.append(len(maps)) or linear_maps(x, maps)
    )
    monkeypatch.setattr("dgl_ptdnet.mlp.linear_maps", lambda x, maps: calls.append("gate") or linear_maps(x, maps))
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    layer = ptd.Denoised(make(name), ptd.EdgeGate(IN)).eval()
    shared = layer(g, h)
    assert "gate" not in calls
    assert calls[0] > 2
    own = {"forward": lambda gate, g, h: ptd.EdgeGate.forward(gate, g, h)}
    layer.gate.__class__ = type("Own", (ptd.EdgeGate,), own)  # a gate of one's own: nothing is shared
    torch.testing.assert_close(layer(g, h), shared)
    assert "gate" in calls


def test_layers_that_do_more_than_a_product_are_called():
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    for hook in ("register_forward_hook", "register_full_backward_hook"):
        layer, seen = ptd.denoise(make("SAGEConv mean")), []
        getattr(layer.conv.fc_self, hook)(lambda *_, seen=seen: seen.append(1))
        layer(g, h.clone().requires_grad_()).sum().backward()
        assert seen


def test_hooks_of_gates_see_what_gates_are_given():
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN)
    layer = ptd.denoise(make("GraphConv both")).eval()
    plain = layer(g, h)
    layer.gate.register_forward_pre_hook(lambda _, args: (args[0], args[1] * 0))
    assert len(layer.gate._forward_pre_hooks) == 1
    changed = layer(g, h)
    with torch.no_grad():
        layer.gate._forward_pre_hooks.clear()
        wanted = layer.gate(g, h * 0)
    assert not torch.equal(plain, changed)
    torch.testing.assert_close(layer.gate.gates, wanted)

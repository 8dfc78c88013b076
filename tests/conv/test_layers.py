"""Denoised convolutions against dense matrices in float64, and against DGL's own where every gate is open."""

import copy
import itertools

import dgl
import pytest
import torch
from conv_inputs import CONVS, IN, OPEN, OUT, Fixed, gate_values, make, pairs, plain_graph, ungated
from dgl.nn import (
    GATConv,
    GATv2Conv,
    GINConv,
    GraphConv,
    SAGEConv,
)
from torch import nn

import dgl_ptdnet as ptd

GRAPHS = {
    "plain": plain_graph,
    "int32": lambda: plain_graph(torch.int32),
    "block": lambda: dgl.to_block(dgl.in_subgraph(plain_graph(), torch.arange(1, 11)), torch.arange(1, 11)),
    "bipartite": lambda: dgl.heterograph({("a", "goes", "b"): pairs(9, 7, 30)}, {"a": 9, "b": 8}),
    "batched": lambda: dgl.batch([plain_graph(), dgl.graph(pairs(5, 5, 9, seed=1), num_nodes=5)]),
    "without edges": lambda: dgl.graph(([], []), num_nodes=4),
}


def inputs(g, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    h = torch.randn(g.num_src_nodes(), IN, generator=generator, dtype=torch.float64).to(dtype)
    if g.is_block or g.srctypes == g.dsttypes:
        return (h,)
    return h, torch.randn(g.num_dst_nodes(), IN, generator=generator, dtype=torch.float64).to(dtype)


def dense(conv, g, z, h, after_softmax=False):
    """What a denoised convolution means, with matrices of size destinations x sources."""
    src, dst = (x.long() for x in g.edges(order="eid"))
    h_src, h_dst = (h[0], h[0][: g.num_dst_nodes()]) if len(h) == 1 else h
    place, size = (dst, src), (len(h_dst), len(h_src))
    a = torch.zeros(size, dtype=torch.float64).index_put(place, z)

    def inverse(degree, power=1.0):
        return torch.where(degree == 0, 0, torch.where(degree == 0, 1, degree) ** -power)

    def largest(rows):
        messages = torch.where((a > 0)[..., None], a[..., None] * rows, -torch.inf).amax(1)
        return torch.where((a > 0).any(1)[:, None], messages, 0)

    mean = a * inverse(a.sum(1))[:, None]
    if isinstance(conv, GraphConv):
        columns, rows = a.sum(0), a.sum(1)[:, None]
        by_norm = {
            "both": lambda: a * inverse(columns, 0.5) * inverse(rows, 0.5),
            "left": lambda: a * inverse(columns),
            "right": lambda: a * inverse(rows),
            "none": lambda: a,
        }
        out = by_norm[conv._norm]() @ h_src @ conv.weight + conv.bias
        return conv._activation(out) if conv._activation else out
    if isinstance(conv, SAGEConv):
        kind = conv._aggre_type
        if kind == "gcn":
            return conv.fc_neigh((a @ h_src + h_dst) / (a.sum(1) + 1)[:, None]) + conv.bias
        if kind == "mean":
            neighbours = mean @ h_src
        elif kind == "pool":
            neighbours = largest(torch.relu(conv.fc_pool(h_src)))
        else:
            neighbours = []
            for v in range(len(h_dst)):
                kept = ((dst == v) & (z > 0)).nonzero().flatten()
                messages = z[kept][:, None] * h_src[src[kept]]
                neighbours.append(conv.lstm(messages[None])[1][0][0, 0] if len(kept) else torch.zeros_like(h_src[0]))
            neighbours = torch.stack(neighbours)
        out = conv.fc_self(h_dst) + conv.fc_neigh(neighbours)
        return conv.activation(out) if conv.activation else out
    if isinstance(conv, GINConv):
        kind = conv._aggregator_type
        neighbours = largest(h_src) if kind == "max" else mean @ h_src if kind == "mean" else a @ h_src
        return conv.apply_func((1 + conv.eps) * h_dst + neighbours)
    shape = (-1, conv._num_heads, conv._out_feats)
    if isinstance(conv, GATConv):
        ft, fd = conv.fc(h_src).view(shape), conv.fc(h_dst).view(shape)
        scores = conv.leaky_relu((ft * conv.attn_l).sum(-1)[None] + (fd * conv.attn_r).sum(-1)[:, None])
    else:
        ft, fd = conv.fc_src(h_src).view(shape), conv.fc_dst(h_dst).view(shape)
        scores = (conv.leaky_relu(ft[None] + fd[:, None]) * conv.attn[0]).sum(-1)
    there = torch.zeros(size, dtype=torch.float64).index_put(place, torch.ones_like(z))
    weights = (there if after_softmax else a)[..., None] * torch.exp(scores)
    weights = weights * inverse(weights.sum(1))[:, None]
    weights = weights * a[..., None] if after_softmax else weights
    out = torch.einsum("vuh,uhf->vhf", weights, ft)
    out = out if conv.res_fc is None else out + conv.res_fc(h_dst).view(len(h_dst), -1, conv._out_feats)
    if isinstance(conv, GATConv) and conv.has_explicit_bias:
        out = out + conv.bias.view(1, conv._num_heads, conv._out_feats)
    return conv.activation(out) if conv.activation else out


def grads(out, tensors):
    wave = torch.linspace(0, 9, out.numel(), dtype=torch.float64).cos().reshape(out.shape)
    found = torch.autograd.grad((out.double() * wave).sum(), tensors, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(tensors, found)]


def arg(h):
    return h[0] if len(h) == 1 else h


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CONVS)
def test_values_and_gradients_are_those_of_dense_matrices(name, graph):
    g, conv = GRAPHS[graph](), make(name).double()
    for after, self_loops in itertools.product([False, True] if "GAT" in name else [False], [False, True]):
        gate = Fixed(gate_values(g.num_edges()), self_loops)
        h = tuple(x.requires_grad_() for x in inputs(g))
        out = ptd.Denoised(conv, gate, after_softmax=after)(g, arg(h))
        z = gate.z if self_loops else torch.where(ungated(g), 1, gate.z)
        want = dense(conv, g, z, h, after)
        torch.testing.assert_close(out, want)
        tensors = [*h, gate.z, *conv.parameters()]
        for got, expected in zip(grads(out, tensors), grads(want, tensors)):
            torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CONVS)
def test_open_gates_give_the_convolution_itself(name, graph):
    g, conv = GRAPHS[graph](), make(name)
    h = arg(inputs(g, torch.float32))
    got = ptd.Denoised(conv, Fixed(torch.ones(g.num_edges())))(g, h)
    torch.testing.assert_close(got, conv(g, h))


@pytest.mark.parametrize("name", CONVS)
def test_parallel_edges_count_each(name):
    g = dgl.graph(([0, 0, 1, 1, 2], [1, 1, 2, 2, 0]))
    conv, h = make(name), arg(inputs(g, torch.float32))
    torch.testing.assert_close(ptd.Denoised(conv, Fixed(torch.ones(5)))(g, h), conv(g, h))


@pytest.mark.parametrize("name", CONVS)
def test_bfloat16(name):
    g, conv = plain_graph(), make(name)
    h, gate = inputs(g, torch.float32)[0], Fixed(gate_values(g.num_edges(), torch.float32))
    want = ptd.Denoised(conv, gate)(g, h)
    got = ptd.Denoised(copy.deepcopy(conv).bfloat16(), gate)(g, h.bfloat16())
    assert got.dtype == torch.bfloat16
    torch.testing.assert_close(got.float(), want, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", CONVS)
def test_a_node_that_keeps_no_edge_keeps_itself_or_gets_zeros(name):
    g, conv = plain_graph(), make(name)
    h = inputs(g, torch.float32)[0].requires_grad_()
    gate = Fixed(torch.zeros(g.num_edges()))
    out = ptd.Denoised(conv, gate)(g, h)
    loops = dgl.remove_self_loop(g)
    lonely = dgl.remove_edges(loops, torch.arange(loops.num_edges()))
    lonely.add_edges(*(x[ungated(g)] for x in g.edges()))
    torch.testing.assert_close(out, conv(lonely, h))
    out.sum().backward()
    assert out.isfinite().all()
    assert all(x.grad.isfinite().all() for x in (h, gate.z, *conv.parameters()) if x.grad is not None)


@pytest.mark.parametrize("name", ["GATConv", "GATv2Conv"])
def test_attention_is_returned_as_dgl_does(name):
    g, conv = plain_graph(), make(name)
    h = inputs(g, torch.float32)[0]
    layer = ptd.Denoised(conv, Fixed(torch.ones(g.num_edges())))
    for got, want in zip(layer(g, h, get_attention=True), conv(g, h, get_attention=True)):
        torch.testing.assert_close(got, want)
    gates = gate_values(g.num_edges(), torch.float32)
    for after in (False, True):
        out, weights = ptd.Denoised(conv, Fixed(gates), after_softmax=after)(g, h, get_attention=True)
        assert weights.shape == (g.num_edges(), 3, 1)
        assert (weights[(gates == 0) & ~ungated(g)] == 0).all()
        torch.testing.assert_close(out, ptd.Denoised(conv, Fixed(gates), after_softmax=after)(g, h))


def test_dropout_of_attention_weights():
    g = dgl.add_self_loop(dgl.rand_graph(300, 5000))
    conv = GATConv(IN, OUT, 2, attn_drop=0.5, bias=False)
    layer = ptd.Denoised(conv, Fixed(torch.ones(g.num_edges())))
    h = torch.ones(300, IN)
    out, weights = layer(g, h, get_attention=True)
    assert 0.45 < (weights == 0).float().mean() < 0.55
    torch.testing.assert_close(out.mean(0), conv.fc(h[:1]).view(2, OUT), rtol=0.1, atol=0.02)


@pytest.mark.parametrize("name", [name for name in CONVS if "v2" not in name])
def test_the_caller_s_edge_weights_multiply_the_messages(name):
    g, conv = plain_graph(), make(name)
    h, weights = inputs(g, torch.float32)[0], torch.rand(g.num_edges()) + 0.5
    layer = ptd.Denoised(conv, Fixed(torch.ones(g.num_edges())))
    torch.testing.assert_close(layer(g, h, edge_weight=weights), conv(g, h, edge_weight=weights))
    with pytest.raises((ValueError, RuntimeError), match=r"edge_weight|size"):
        layer(g, h, edge_weight=weights[:-1])


def test_weight_from_outside():
    g, h, weight = plain_graph(), torch.randn(13, IN), torch.randn(IN, OUT)
    conv = GraphConv(IN, OUT, weight=False, bias=False, **OPEN)
    layer = ptd.Denoised(conv, Fixed(torch.ones(g.num_edges())))
    torch.testing.assert_close(layer(g, h, weight=weight), conv(g, h, weight=weight))
    torch.testing.assert_close(layer(g, h), conv(g, h))
    with pytest.raises(dgl.DGLError, match="weight was given"):
        ptd.Denoised(GraphConv(IN, OUT, **OPEN), layer.gate)(g, h, weight=weight)


def test_features_of_more_dimensions_where_the_convolution_takes_them():
    g, h = plain_graph(), torch.randn(13, 3, IN)
    for conv in (GraphConv(IN, OUT, **OPEN), GraphConv(IN, 9, **OPEN), GINConv(nn.Linear(IN, OUT), "sum")):
        layer = ptd.Denoised(conv, Fixed(torch.ones(g.num_edges())))
        torch.testing.assert_close(layer(g, h), conv(g, h))


@pytest.mark.parametrize("name", ["GraphConv both", "GATConv", "GATv2Conv"])
def test_nodes_without_edges_are_refused_unless_they_are_allowed(name):
    g, conv = plain_graph(), make(name)
    layer = ptd.Denoised(conv, ptd.EdgeGate(IN))
    assert layer(g, torch.randn(13, IN)).isfinite().all()
    layer.set_allow_zero_in_degree(False)  # the convolution's own method, through the wrapper
    with pytest.raises(dgl.DGLError, match="0-in-degree"):
        layer(g, torch.randn(13, IN))
    assert layer(dgl.add_self_loop(g), torch.randn(13, IN)).isfinite().all()


def test_bipartite_features_of_different_sizes():
    g = GRAPHS["bipartite"]()
    h = (torch.randn(9, IN), torch.randn(8, 3))
    for conv in (SAGEConv((IN, 3), OUT, "mean"), GATConv((IN, 3), OUT, 2, **OPEN), GATv2Conv((IN, 3), OUT, 2, **OPEN)):
        layer = ptd.Denoised(conv, Fixed(torch.ones(30)))
        torch.testing.assert_close(layer(g, h), conv(g, h))
        assert ptd.denoise(conv)(g, h).isfinite().all()


@pytest.mark.parametrize("name", CONVS)
def test_results_may_be_changed_in_place(name):
    g, h = dgl.add_self_loop(plain_graph()), torch.randn(13, IN, requires_grad=True)
    layer = ptd.denoise(make(name))
    for attribute in ("activation", "_activation"):  # those may keep their result for the gradient
        if hasattr(layer.conv, attribute):
            setattr(layer.conv, attribute, None)
    out = layer(g, h)
    assert out.is_contiguous()
    out.relu_().sum().backward()
    assert h.grad is not None
    for conv in (GraphConv(IN, 9, bias=False, **OPEN), SAGEConv(IN, 9, "gcn", bias=False)):
        ptd.Denoised(conv, ptd.EdgeGate(IN))(g, h).relu_().sum().backward()

"""Denoised convolutions against dense matrices in float64, and against DGL's own where every gate is open."""

import copy
import io
import itertools
import pickle

import dgl
import pytest
import torch
from dgl.nn import (
    APPNPConv,
    EdgeConv,
    GATConv,
    GATv2Conv,
    GINConv,
    GraphConv,
    HeteroGraphConv,
    SAGEConv,
    SGConv,
    TAGConv,
)
from torch import nn

import dgl_ptdnet as ptd
from dgl_ptdnet.ops import linear_maps

IN, OUT = 6, 4


class Fixed(nn.Module):
    """A gate that gives the numbers it was made with."""

    def __init__(self, z, self_loops=False):
        super().__init__()
        self.z, self.self_loops = nn.Parameter(z), self_loops

    def forward(self, g, h):
        return self.z


def gate_values(edges, dtype=torch.float64):
    """A third exactly 0, some exactly 1."""
    z = (torch.rand(edges, generator=torch.Generator().manual_seed(3)) * 1.8 - 0.6).clamp(0, 1)
    return torch.where(z > 0, 0.2 + 0.8 * z, 0).to(dtype)


def pairs(num_src, num_dst, count, seed=0):
    chosen = torch.randperm(num_src * num_dst, generator=torch.Generator().manual_seed(seed))[:count]
    return chosen // num_dst, chosen % num_dst


def plain_graph(ids=torch.int64):
    """Some self-loops, a node without any edge, one without incoming ones; no parallel edges."""
    src, dst = pairs(12, 10, 50)
    return dgl.graph((src, dst), num_nodes=13, idtype=ids)


GRAPHS = {
    "plain": plain_graph,
    "int32": lambda: plain_graph(torch.int32),
    "block": lambda: dgl.to_block(dgl.in_subgraph(plain_graph(), torch.arange(1, 11)), torch.arange(1, 11)),
    "bipartite": lambda: dgl.heterograph({("a", "goes", "b"): pairs(9, 7, 30)}, {"a": 9, "b": 8}),
    "batched": lambda: dgl.batch([plain_graph(), dgl.graph(pairs(5, 5, 9, seed=1), num_nodes=5)]),
    "without edges": lambda: dgl.graph(([], []), num_nodes=4),
}

CONVS = {
    **{
        f"GraphConv {norm}": lambda n=norm: GraphConv(IN, OUT, norm=n, **OPEN)
        for norm in ("both", "left", "right", "none")
    },
    "GraphConv wide": lambda: GraphConv(IN, 9, activation=torch.relu, **OPEN),
    **{f"SAGEConv {kind}": lambda k=kind: SAGEConv(IN, OUT, k) for kind in ("mean", "gcn", "pool", "lstm")},
    "SAGEConv wide": lambda: SAGEConv(IN, 9, "mean", activation=torch.tanh),
    "SAGEConv gcn wide": lambda: SAGEConv(IN, 9, "gcn"),
    "GATConv": lambda: GATConv(IN, OUT, 3, **OPEN),
    "GATConv residual": lambda: GATConv(IN, OUT, 2, residual=True, activation=torch.tanh, **OPEN),
    "GATv2Conv": lambda: GATv2Conv(IN, OUT, 3, **OPEN),
    "GATv2Conv shared": lambda: GATv2Conv(IN, OUT, 2, share_weights=True, residual=True, **OPEN),
    **{f"GINConv {kind}": lambda k=kind: GINConv(nn.Linear(IN, OUT), k) for kind in ("sum", "max", "mean")},
    "GINConv deep": lambda: GINConv(nn.Sequential(nn.Linear(IN, OUT), nn.Tanh(), nn.Linear(OUT, OUT)), init_eps=0.5),
    "GINConv wide": lambda: GINConv(nn.Sequential(nn.Linear(IN, 9, bias=False), nn.Tanh(), nn.Linear(9, OUT))),
}
OPEN = {"allow_zero_in_degree": True}


def inputs(g, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    h = torch.randn(g.num_src_nodes(), IN, generator=generator, dtype=torch.float64).to(dtype)
    if g.is_block or g.srctypes == g.dsttypes:
        return (h,)
    return h, torch.randn(g.num_dst_nodes(), IN, generator=generator, dtype=torch.float64).to(dtype)


def ungated(g):
    """Which edges are self-loops, by hand."""
    src, dst = g.edges(order="eid")
    return src == dst if g.is_block or g.srctypes == g.dsttypes else torch.zeros(len(src), dtype=torch.bool)


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


def make(name, seed=0):
    torch.manual_seed(seed)
    return CONVS[name]()


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


@pytest.mark.parametrize(
    "conv",
    [SGConv(IN, OUT, k=2, allow_zero_in_degree=True), TAGConv(IN, OUT), APPNPConv(2, 0.1)],
    ids=lambda c: type(c).__name__,
)
def test_any_convolution_that_takes_edge_weight(conv):
    g = dgl.add_self_loop(plain_graph())
    h, z, weights = torch.randn(13, IN), gate_values(g.num_edges(), torch.float32), torch.rand(g.num_edges())
    some = z + 0.1
    layer = ptd.Denoised(conv, Fixed(some, self_loops=True))
    torch.testing.assert_close(layer(g, h), conv(g, h, edge_weight=some))
    torch.testing.assert_close(layer(g, h, edge_weight=weights), conv(g, h, edge_weight=some * weights))
    layer = ptd.Denoised(conv, Fixed(z))  # DGL's own normalisation refuses zeros
    z = torch.where(ungated(g), 1, z)
    kept = dgl.edge_subgraph(g, z > 0, relabel_nodes=False)
    torch.testing.assert_close(layer(g, h), conv(kept, h, edge_weight=z[z > 0]))
    layer(g, h).sum().backward()
    assert layer.gate.z.grad.isfinite().all()


def test_a_subclass_with_its_own_forward_is_not_taken_for_its_base():
    class Twice(GraphConv):
        def forward(self, graph, feat, weight=None, edge_weight=None):
            return 2 * super().forward(graph, feat, weight, edge_weight)

    g, conv, h = dgl.add_self_loop(plain_graph()), Twice(IN, OUT), torch.randn(13, IN)
    layer = ptd.Denoised(conv, Fixed(torch.ones(g.num_edges())))
    torch.testing.assert_close(layer(g, h), conv(g, h))


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
    with pytest.raises(ValueError, match="no DGL convolution"):
        ptd.denoise(net)  # all are wrapped


def test_denoise_refuses_by_name_and_leaves_the_model_as_it_was():
    model = nn.ModuleDict({"good": GraphConv(IN, OUT), "bad": EdgeConv(IN, OUT), "unknown": APPNPConv(2, 0.1)})
    with pytest.raises(ValueError, match=r"bad \(EdgeConv\): its forward takes no edge_weight.*unknown \(APPNPConv\)"):
        ptd.denoise(model)
    assert type(model["good"]) is GraphConv
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

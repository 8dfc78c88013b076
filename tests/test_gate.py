"""Gates as modules on graphs: EdgeGate's forms, its noise, its hook."""

import copy
import pickle
import sys

import dgl
import pytest
import torch
from gate_inputs import FEATS, features, undirected
from torch import nn

import dgl_ptdnet as ptd
from dgl_ptdnet.graph import edges_of


@pytest.fixture(autouse=True)
def seed():
    """A test's draws do not depend on the tests before it."""
    torch.manual_seed(0)


def reverse_of(g):
    """For every edge the number of its reverse."""
    src, dst = (x.tolist() for x in g.edges())
    place = {pair: k for k, pair in enumerate(zip(src, dst))}
    return torch.tensor([place[v, u] for u, v in zip(src, dst)])


def logits(gate, g, h):
    """The gate's logits by an MLP on the concatenation of the two ends."""
    src, dst = (x.long() for x in g.edges(order="eid"))
    mlp = gate.mlp

    def one_way(a, b):
        if mlp.tower_src is not None:
            a, b = torch.relu(mlp.tower_src(a)), torch.relu(mlp.tower_dst(b))
        hidden = torch.cat([a, b], 1) @ torch.cat([mlp.weight_src, mlp.weight_dst], 1).T
        return hidden.squeeze(1) if mlp.w is None else torch.relu(hidden + mlp.bias) @ mlp.w

    if gate.normalize:
        h = (h - h.mean(1, keepdim=True)) / (h.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
    u, v = h[src], h[dst]
    found = (one_way(u, v) + one_way(v, u)) / 2 if gate.symmetric else one_way(u, v)
    if gate.similarity is not None:
        found = found + gate.similarity * torch.cosine_similarity(u, v, dim=1)
    if gate.edge_map is not None:
        found = found + g.edata["feat"].reshape(len(src), -1) @ gate.edge_map.weight[0]
    return found + gate.c


FORMS = {
    "the paper's MLP": {},
    "small": {"hidden": 3},
    "two towers": {"tower": 5, "hidden": 0},
    "two towers and a hidden layer": {"tower": 5, "hidden": 7},
    "separable": {"hidden": 0},
    "symmetric": {"symmetric": True},
    "symmetric towers": {"symmetric": True, "tower": 5, "hidden": 7},
    "symmetric separable": {"symmetric": True, "hidden": 0},
    "edge features": {"edge_feats": 2},
    "similarity": {"similarity": True},
    "normalised": {"normalize": True},
    "all": {"symmetric": True, "tower": 4, "edge_feats": 2, "similarity": True, "normalize": True},
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_what_an_mlp_on_the_concatenation_gives(form):
    g = undirected()
    g.edata["feat"] = torch.randn(g.num_edges(), 2).double()
    gate = ptd.EdgeGate(FEATS, **FORMS[form], bias=0.3).double()
    h = features(g).double().requires_grad_()
    want = logits(gate, g, h)
    value = torch.clamp(torch.sigmoid(want) * 1.2 - 0.1, 0, 1)
    tensors = [h, *gate.parameters()]
    torch.testing.assert_close(gate.eval()(g, h), value)
    got = torch.autograd.grad(gate(g, h).square().sum() + gate.penalty, tensors, allow_unused=True)
    kept = torch.sigmoid(want - torch.log(torch.tensor(0.1 / 1.1, dtype=torch.float64))).sum()
    torch.testing.assert_close(gate.penalty, kept)
    expected = torch.autograd.grad(value.square().sum() + kept, tensors, allow_unused=True)
    for ours, theirs in zip(got, expected):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("form", FORMS)
def test_blocks_and_pairs_have_the_gates_of_the_whole_graph(form):
    g = undirected()
    g.edata["feat"] = torch.randn(g.num_edges(), 2)
    h = features(g)
    gate = ptd.EdgeGate(FEATS, **FORMS[form])
    sampler = dgl.dataloading.MultiLayerNeighborSampler([4])
    loader = dgl.dataloading.DataLoader(g, torch.arange(10, 30), sampler, batch_size=7)
    for training in (True, False):
        gate.train(training)
        for _, _, (block,) in loader:
            block.edata["feat"] = g.edata["feat"][block.edata[dgl.EID]]
            offset = gate.noise.clone()
            whole = gate(g, h)[block.edata[dgl.EID]]
            h_src, h_dst = h[block.srcdata[dgl.NID]], h[block.dstdata[dgl.NID]]
            for given in (h_src, (h_src, h_dst)):
                gate.noise.copy_(offset)
                torch.testing.assert_close(gate(block, given), whole)


def test_bipartite_features_of_different_sizes():
    g = dgl.heterograph({("a", "to", "b"): ([0, 1, 2, 2], [0, 0, 1, 0])})
    gate = ptd.EdgeGate((5, 3))
    assert gate(g, (torch.randn(3, 5), torch.randn(2, 3))).shape == (4,)
    with pytest.raises(ValueError, match=r"destination features \[N, 3\]; got shape \(2, 5\)"):
        gate(g, (torch.randn(3, 5), torch.randn(2, 5)))
    with pytest.raises(ValueError, match="symmetric=True needs a graph whose edges join nodes of one set"):
        ptd.EdgeGate(5, symmetric=True)(g, (torch.randn(3, 5), torch.randn(2, 5)))


def test_symmetric_gates_are_equal_in_both_directions_also_when_sampled():
    g = undirected()
    gate, other = ptd.EdgeGate(FEATS, symmetric=True), ptd.EdgeGate(FEATS)
    z = gate(g, features(g))
    torch.testing.assert_close(z, z[reverse_of(g)], rtol=0, atol=1e-6)
    assert len(z.unique()) > 10
    assert (other(g, features(g)) - other.gates[reverse_of(g)]).abs().max() > 0.1


def test_noise_follows_the_seed_and_is_part_of_the_state():
    g = undirected()
    h = features(g)
    torch.manual_seed(3)
    one = ptd.EdgeGate(FEATS)
    torch.manual_seed(3)
    two = ptd.EdgeGate(FEATS)
    assert torch.equal(one(g, h), two(g, h))
    assert not torch.equal(one(g, h), two.gates)  # the next draw
    state = copy.deepcopy(one.state_dict())
    want = [one(g, h) for _ in range(3)]
    torch.manual_seed(99)
    fresh = ptd.EdgeGate(FEATS)
    fresh.load_state_dict(state)
    assert all(torch.equal(fresh(g, h), z) for z in want)
    assert not torch.equal(ptd.EdgeGate(FEATS).noise, one.noise)
    one.eval()
    assert torch.equal(one(g, h), one(g, h))


def test_self_loops_stay_open_and_teach_nothing_unless_asked_for():
    g = dgl.graph(([0, 1, 2, 2, 0], [1, 2, 0, 2, 0]))
    h = torch.randn(3, FEATS)
    gate = ptd.EdgeGate(FEATS, bias=-3.0)
    for _ in range(5):
        assert gate(g, h)[3:].tolist() == [1.0, 1.0]
    (grad,) = torch.autograd.grad(gate.penalty, gate.c)
    pure = dgl.graph(([0, 1, 2], [1, 2, 0]))
    gate(pure, h)
    torch.testing.assert_close(torch.autograd.grad(gate.penalty, gate.c)[0], grad)
    gated = ptd.EdgeGate(FEATS, bias=-9.0, self_loops=True).eval()
    assert gated(g, h).tolist() == [0.0] * 5
    conv = ptd.Denoised(dgl.nn.GraphConv(FEATS, 2, bias=False), gated)
    assert not conv(g, h).any()


@pytest.mark.parametrize("normalize", [False, True])
def test_cosines_are_computed_once_where_features_do_not_learn(monkeypatch, normalize):
    g, calls = undirected(), []
    original = ptd.edge_dot
    monkeypatch.setattr("dgl_ptdnet.gate.edge_dot", lambda *args: calls.append(1) or original(*args))
    gate, h = ptd.EdgeGate(FEATS, similarity=True, normalize=normalize), features(g)
    first = gate.eval()(g, h)
    assert torch.equal(gate(g, h), first)
    assert len(calls) == 1
    h.mul_(-1)[0] += 5
    assert not torch.equal(gate(g, h), first)
    assert len(calls) == 2
    learned = h.clone().requires_grad_()
    for _ in range(2):
        gate(g, learned).sum().backward()
    assert len(calls) == 4
    assert learned.grad.abs().sum() > 0


@pytest.mark.parametrize("symmetric", [False, True])
def test_hook_writes_the_gates(symmetric):
    g, gate = undirected(), ptd.EdgeGate(FEATS, symmetric=symmetric)
    g.ndata["h"] = features(g)
    for training in (True, False):
        gate.train(training)
        before = gate.noise.clone()
        want = gate(g, g.ndata["h"])
        gate.noise.copy_(before)
        g.apply_edges(gate.hook("h", "gate"))
        assert torch.equal(g.edata["gate"], want)
        gate.noise.copy_(before)
        chosen = torch.tensor([7, 3, 20, 3])
        g.edata["some"] = torch.full((g.num_edges(),), -1.0)
        g.apply_edges(gate.hook("h", "some"), edges=chosen)
        torch.testing.assert_close(g.edata["some"][chosen], want[chosen])
        assert (g.edata["some"] == -1).sum() == g.num_edges() - 3


def test_hook_gathers_no_features(monkeypatch):
    g, gate = undirected(), ptd.EdgeGate(FEATS)
    g.ndata["h"] = features(g)
    rows = []
    original = dgl.backend.gather_row
    monkeypatch.setattr(dgl.backend, "gather_row", lambda *args: rows.append(args) or original(*args))
    g.apply_edges(gate.hook("h", "gate"))
    assert not [x for x, _ in rows if x.dim() == 2]


def test_hook_on_edge_types_and_blocks():
    g = dgl.heterograph({("a", "to", "b"): ([0, 1, 2], [0, 0, 1]), ("b", "back", "a"): ([0, 1], [2, 2])})
    g.nodes["a"].data["h"], g.nodes["b"].data["h"] = torch.randn(3, 5), torch.randn(2, 4)
    gate = ptd.EdgeGate((5, 4)).eval()
    g.apply_edges(gate.hook("h", "gate"), etype="to")
    want = gate(g["to"], (g.nodes["a"].data["h"], g.nodes["b"].data["h"]))
    assert torch.equal(g.edges["to"].data["gate"], want)
    whole = undirected()
    block = dgl.to_block(dgl.in_subgraph(whole, torch.arange(9)), torch.arange(9))
    block.srcdata["h"], block.dstdata["h"] = torch.randn(block.num_src_nodes(), FEATS), torch.randn(9, FEATS)
    gate = ptd.EdgeGate(FEATS).eval()
    block.apply_edges(gate.hook("h", "gate"))
    assert torch.equal(block.edata["gate"], gate(block, (block.srcdata["h"], block.dstdata["h"])))


def test_hook_as_a_message():
    g, gate = undirected(), ptd.EdgeGate(FEATS).eval()
    g.ndata["h"] = features(g)
    g.update_all(gate.hook("h", "m"), dgl.function.sum("m", "degree"))
    torch.testing.assert_close(g.ndata["degree"], ptd.degrees(edges_of(g).index, gate(g, g.ndata["h"])))


def test_wrong_settings_are_refused():
    for settings, message in [
        ({"in_feats": 0}, "in_feats must be positive"),
        ({"in_feats": 4, "hidden": -1}, "hidden and tower not negative"),
        ({"in_feats": 4, "gamma": 0.0}, "gamma must be below 0"),
        ({"in_feats": 4, "zeta": 1.0}, "zeta above 1"),
        ({"in_feats": 4, "tau": 0.0}, "tau must be positive"),
        ({"in_feats": (4, 5), "symmetric": True}, "symmetric=True needs both ends"),
    ]:
        with pytest.raises(ValueError, match=message):
            ptd.EdgeGate(**settings)
    g = undirected()
    with pytest.raises(KeyError, match=r"g.edata\['feat'\]"):
        ptd.EdgeGate(FEATS, edge_feats=2)(g, features(g))
    hetero = dgl.heterograph({("a", "x", "a"): ([0], [0]), ("a", "y", "a"): ([0], [0])})
    with pytest.raises(ValueError, match=r"2 edge types.*g\[etype\]"):
        ptd.EdgeGate(FEATS)(hetero, torch.randn(1, FEATS))


@pytest.mark.parametrize(
    "make", [lambda: ptd.EdgeGate(FEATS), lambda: ptd.DropEdge(0.5), lambda: ptd.NeuralSparse(FEATS, 3)]
)
def test_every_gate_plugs_into_every_convolution_and_can_be_copied(make):
    g = dgl.add_self_loop(undirected())
    h = features(g)
    for conv in (
        dgl.nn.GraphConv(FEATS, 4),
        *(dgl.nn.SAGEConv(FEATS, 4, kind) for kind in ("mean", "gcn", "pool", "lstm")),
        dgl.nn.GATConv(FEATS, 4, 2),
        dgl.nn.GATv2Conv(FEATS, 4, 2),
        dgl.nn.GINConv(nn.Linear(FEATS, 4), "sum"),
        dgl.nn.SGConv(FEATS, 4),
    ):
        layer = ptd.Denoised(conv, make())
        out = layer(g, h)
        out.sum().backward()
        assert out.isfinite().all()
        assert all(p.grad.isfinite().all() for p in layer.parameters() if p.grad is not None)
        noise = layer.gate.noise.clone()
        want = layer(g, h)
        layer.gate.noise.copy_(noise)
        for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert torch.equal(twin(g, h), want)


def test_draws_have_63_bits_of_seed_and_are_counted_from_0():
    gates = [ptd.DropEdge(0.5) for _ in range(8)]
    assert max(int(gate.noise[0]) for gate in gates) > 2**55
    gate, g = gates[0], undirected()
    for count in range(3):
        assert gate.noise.tolist() == [int(gate.noise[0]), count]
        gate(g, features(g))
    gate.eval()(g, features(g))
    assert int(gate.noise[1]) == 3


def test_gamma_and_zeta_stretch_the_samples():
    g = undirected()
    gate = ptd.EdgeGate(FEATS, gamma=-0.5, zeta=3.0).eval()
    z = gate(g, features(g))
    logit = logits(gate, g, features(g))
    torch.testing.assert_close(z, (torch.sigmoid(logit) * 3.5 - 0.5).clamp(0, 1))


def test_a_call_makes_no_index_of_its_own(monkeypatch):
    g, gate = undirected(), ptd.EdgeGate(FEATS)
    edges_of(g)
    monkeypatch.setattr(sys.modules["dgl_ptdnet.ops.edge_gate"], "EdgeIndex", None)
    gate(g, features(g))


@pytest.mark.parametrize("normalize", [False, True])
def test_pairs_are_two_sets_of_features(normalize):
    g = dgl.heterograph({("a", "x", "b"): ([0, 1, 2, 2], [1, 0, 1, 0])})
    h = torch.randn(3, FEATS), torch.randn(2, FEATS)
    gate = ptd.EdgeGate(FEATS, normalize=normalize, similarity=True).eval()
    u, v = ((x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt() for x in h)
    u, v = (u, v) if normalize else h
    src, dst = g.edges()
    mlp = gate.mlp
    hidden = torch.relu(u[src] @ mlp.weight_src.T + v[dst] @ mlp.weight_dst.T + mlp.bias)
    want = hidden @ mlp.w + gate.c + torch.cosine_similarity(u[src], v[dst], dim=1)
    torch.testing.assert_close(gate(g, h), (torch.sigmoid(want) * 1.2 - 0.1).clamp(0, 1))


@pytest.mark.parametrize("which", [0, 1])
def test_cosines_are_not_kept_where_one_side_learns(which):
    g = dgl.heterograph({("a", "x", "b"): ([0, 1, 2, 2], [1, 0, 1, 0])})
    h = [torch.randn(3, FEATS), torch.randn(2, FEATS)]
    h[which].requires_grad_()
    gate = ptd.EdgeGate(FEATS, similarity=True)
    nn.init.zeros_(gate.mlp.w)
    for _ in range(2):
        gate(g, tuple(h)).sum().backward()
        assert h[which].grad.abs().sum() > 0
        h[which].grad = None


@pytest.mark.parametrize("chosen", [[2, 3, 4], [5], [7, 3], []])
def test_hook_on_some_edges(chosen):
    g, gate = undirected(), ptd.EdgeGate(FEATS).eval()
    g.ndata["h"] = features(g)
    want = gate(g, g.ndata["h"])
    g.apply_edges(gate.hook("h", "gate"), edges=torch.tensor(chosen, dtype=torch.int64))
    if chosen:
        assert torch.equal(g.edata["gate"][chosen], want[chosen])

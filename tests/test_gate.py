"""Gates as modules on graphs: EdgeGate's forms, noise, hook, penalty; the baselines' gates; pruning; the cache."""

import copy
import gc
import pickle
import subprocess
import sys
import weakref

import dgl
import pytest
import torch
from torch import nn

import dgl_ptdnet as ptd
from dgl_ptdnet import graph as graph_module
from dgl_ptdnet.graph import edges_of

FEATS = 6


@pytest.fixture(autouse=True)
def seed():
    """A test's draws do not depend on the tests before it."""
    torch.manual_seed(0)


def undirected(nodes=40, edges=120, seed=0):
    """Both directions of random pairs, no self-loops, shuffled."""
    generator = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(0, nodes, (2, edges), generator=generator)
    pairs = torch.stack([torch.minimum(src, dst), torch.maximum(src, dst)])[:, src != dst].unique(dim=1)
    both = torch.cat([pairs, pairs.flip(0)], 1)
    both = both[:, torch.randperm(both.shape[1], generator=generator)]
    return dgl.graph((both[0], both[1]), num_nodes=nodes)


def features(g, seed=1):
    return torch.randn(g.num_src_nodes(), FEATS, generator=torch.Generator().manual_seed(seed))


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


def test_cosines_are_computed_once_where_features_do_not_learn(monkeypatch):
    g, calls = undirected(), []
    original = ptd.edge_dot
    monkeypatch.setattr("dgl_ptdnet.gate.edge_dot", lambda *args: calls.append(1) or original(*args))
    gate, h = ptd.EdgeGate(FEATS, similarity=True), features(g)
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


def test_penalty_of_a_model():
    g = dgl.add_self_loop(undirected())
    model = nn.ModuleList([dgl.nn.GraphConv(FEATS, 8), dgl.nn.GraphConv(8, 3)])
    ptd.denoise(model)
    with pytest.raises(ValueError, match="call the model first"):
        ptd.penalty(model, edges=1.0)
    model[1](g, model[0](g, features(g)))
    gates = [layer.gate for layer in model]
    torch.testing.assert_close(ptd.penalty(model, edges=0.5), 0.5 * (gates[0].penalty + gates[1].penalty))
    assert ptd.penalty(model) == 0
    dense = torch.zeros(40, 40).index_put(g.edges(), gates[0].gates.detach(), accumulate=True)
    top = torch.linalg.svdvals(dense)[0]
    torch.testing.assert_close(ptd.penalty(model[0], rank=2.0), 2 * top, rtol=1e-3, atol=0)
    ptd.penalty(model, edges=1.0, rank=1.0).backward()
    assert all(gate.c.grad != 0 for gate in gates)


def test_temperature():
    model = ptd.denoise(nn.ModuleList([dgl.nn.GraphConv(FEATS, 8)]))
    ptd.set_temperature(model, 0.25)
    assert model[0].gate.tau == 0.25
    with pytest.raises(ValueError, match="tau must be positive"):
        ptd.set_temperature(model, 0)


def test_wrong_settings_are_refused():
    for settings, message in [
        ({"in_feats": 0}, "in_feats must be positive"),
        ({"in_feats": 4, "hidden": -1}, "hidden and tower not negative"),
        ({"in_feats": 4, "gamma": 0.0}, "gamma < 0"),
        ({"in_feats": 4, "zeta": 1.0}, "zeta > 1"),
        ({"in_feats": 4, "tau": 0.0}, "tau > 0"),
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


def test_drop_edge_drops_its_share_and_nothing_in_evaluation():
    g = undirected(300, 30_000)
    drop = ptd.DropEdge(0.8)
    z = drop(g, features(g))
    assert set(z.unique().tolist()) == {0.0, 1.0}
    assert 0.18 < z.mean() < 0.22
    assert not torch.equal(drop(g, features(g)), z)
    assert (drop.eval()(g, features(g)) == 1).all()
    assert (ptd.DropEdge(0.0)(g, features(g)) == 1).all()
    with pytest.raises(ValueError, match="p must be at least 0"):
        ptd.DropEdge(1.0)


def test_drop_edge_renormalises():
    g = dgl.add_self_loop(undirected())
    layer = ptd.Denoised(dgl.nn.GraphConv(FEATS, 4, norm="right", bias=False), ptd.DropEdge(0.5))
    torch.testing.assert_close(layer(g, torch.ones(40, FEATS)), torch.ones(40, FEATS) @ layer.conv.weight)


def test_neural_sparse_keeps_k_edges_a_node_the_best_in_evaluation():
    g = undirected(60, 1500)
    sparse = ptd.NeuralSparse(FEATS, 4, tau=0.1)
    h = features(g)
    degree = g.in_degrees()
    for training in (True, False):
        z = sparse.train(training)(g, h)
        assert ((z >= 0) & (z <= 1)).all()
        kept = torch.zeros(60).index_add(0, g.edges()[1], (z > 0).float())
        assert torch.equal(kept, degree.clamp(max=4).float())
    src, dst = g.edges()
    mlp = sparse.mlp
    scores = torch.relu(h[src] @ mlp.weight_src.T + h[dst] @ mlp.weight_dst.T + mlp.bias) @ mlp.w
    for v in range(60):
        mine = (dst == v).nonzero().flatten()
        best = mine[scores[mine].argsort(descending=True)[:4]]
        assert set(best.tolist()) == set(mine[z[mine] > 0].tolist())
    z.sum().backward()
    assert mlp.w.grad.abs().sum() > 0
    sharp = ptd.NeuralSparse(FEATS, 4, tau=1e-6).eval()(g, h)
    assert sharp[sharp > 0].min() > 0.9


@pytest.mark.parametrize("k", [1, 3, 7])
@pytest.mark.parametrize("tau", [0.05, 1.0, 5.0])
def test_neural_sparse_is_a_softmax_for_each_draw_over_what_was_not_drawn(k, tau):
    g = dgl.graph((torch.randint(30, (200,)), torch.randint(20, (200,)).square() // 20), num_nodes=30)
    sparse, keys = ptd.NeuralSparse(FEATS, k, tau=tau), torch.randn(200, dtype=torch.float64, requires_grad=True)
    wanted = torch.zeros(200, dtype=torch.float64)
    for v in g.nodes():
        ids = g.in_edges(v, form="eid")
        left, total = torch.ones(len(ids), dtype=torch.bool), torch.zeros(len(ids), dtype=torch.float64)
        for _ in range(k if len(ids) > k else 0):
            total = total + (keys[ids] / tau).masked_fill(~left, -torch.inf).softmax(0)
            left[keys[ids].masked_fill(~left, -torch.inf).argmax()] = False
        wanted = wanted.index_put((ids,), torch.where(left, 0.0, total.clamp(max=1)) if len(ids) > k else left.double())
    found = sparse._choose(edges_of(g).index, keys)
    torch.testing.assert_close(found, wanted)
    weights = torch.randn(200, dtype=torch.float64)
    torch.testing.assert_close(*(torch.autograd.grad(z @ weights, keys)[0] for z in (found, wanted)))


def test_neural_sparse_draws_by_edge_id():
    g, sparse = undirected(), ptd.NeuralSparse(FEATS, 2)
    seeds = torch.arange(10)
    noise = sparse.noise.clone()
    whole = sparse(g, features(g))
    sparse.noise.copy_(noise)
    block = dgl.to_block(dgl.in_subgraph(g, seeds), seeds)
    part = dgl.in_subgraph(g, seeds)
    block.edata[dgl.EID] = part.edata[dgl.EID][block.edata[dgl.EID]]
    torch.testing.assert_close(sparse(block, features(g)[block.srcdata[dgl.NID]]), whole[block.edata[dgl.EID]])


@pytest.mark.parametrize("kind", ["graph", "block"])
def test_evaluation_on_the_pruned_graph_is_that_on_the_whole(kind):
    g = dgl.add_self_loop(undirected(300, 6000))
    g.ndata["feat"], g.edata["w"] = features(g), torch.rand(g.num_edges())
    if kind == "block":
        g = dgl.to_block(dgl.in_subgraph(g, torch.arange(50)), torch.arange(50))
    h = torch.randn(g.num_src_nodes(), FEATS)
    for conv in (dgl.nn.GraphConv(FEATS, 4), dgl.nn.SAGEConv(FEATS, 4, "mean"), dgl.nn.GATConv(FEATS, 4, 2)):
        layer = ptd.Denoised(conv, ptd.EdgeGate(FEATS, bias=-2.0))
        nn.init.normal_(layer.gate.mlp.w, std=2)
        small = ptd.prune(g, layer.gate, h)
        assert layer.gate.training
        assert type(small) is type(g)
        assert 0 < small.num_edges() < 0.9 * g.num_edges()
        assert (small.num_src_nodes(), small.num_dst_nodes()) == (g.num_src_nodes(), g.num_dst_nodes())
        assert (small.edata["gate"] > 0).all()
        ids = small.edata[dgl.EID]
        if kind == "graph":
            assert torch.equal(small.edata["w"], g.edata["w"][ids])
            assert all(torch.equal(a, b[ids]) for a, b in zip(small.edges(), g.edges()))
        layer.eval()
        torch.testing.assert_close(layer(small, h), layer(g, h))
        fewer = ptd.prune(g, layer.gate, h, threshold=0.5)
        assert (fewer.edata["gate"] > 0.5).all()
        assert fewer.num_edges() <= small.num_edges()
        again = ptd.prune(small, layer.gate, h, threshold=0.5)
        assert torch.equal(again.edata[dgl.EID], fewer.edata[dgl.EID])


def test_the_index_is_made_once_for_a_graph():
    g = undirected()
    index = edges_of(g).index
    assert edges_of(g).index is index
    assert edges_of(g.local_var()).index is index
    assert edges_of(g["_E"]).index is index
    with g.local_scope():
        g.ndata["x"] = torch.ones(40)
        assert edges_of(g).index is index
    hetero = dgl.heterograph({("a", "x", "b"): ([0, 1], [1, 0]), ("b", "y", "a"): ([0], [0])})
    assert edges_of(hetero["x"]).index is edges_of(hetero["x"]).index
    assert edges_of(hetero["x"]).index is not edges_of(hetero["y"]).index


def test_the_index_is_right_after_every_change_of_the_graph():
    g = undirected()
    gate, first = ptd.EdgeGate(FEATS).eval(), edges_of(g)

    def check(g):
        src, dst = g.edges(order="eid")
        index = edges_of(g).index
        assert torch.equal(index.src, src)
        assert torch.equal(index.dst, dst)
        assert (index.num_src, index.num_dst) == (g.num_src_nodes(), g.num_dst_nodes())
        assert gate(g, torch.randn(g.num_src_nodes(), FEATS)).shape == (g.num_edges(),)

    g.add_edges([0, 1], [5, 1])
    check(g)
    assert edges_of(g) is not first
    g.add_nodes(3)
    check(g)
    g.remove_edges([0, 4])
    check(g)
    g.remove_nodes([2])
    check(g)
    for other in (
        *(g.to("cpu"), g.int(), g.int().long(), copy.copy(g), copy.deepcopy(g), g.clone(), g.reverse(), g.cpu()),
        *(dgl.batch([g, undirected(seed=4)]), dgl.add_self_loop(g), dgl.node_subgraph(g, range(10)), g.formats("coo")),
        *(pickle.loads(pickle.dumps(g)), dgl.graph(([], []), num_nodes=3)),
    ):
        check(other)
    check(g)


def test_an_index_is_freed_with_its_graph():
    gc.collect()
    before = len(graph_module._by_frame)
    g = undirected()
    known = weakref.ref(edges_of(g))
    assert edges_of(g["_E"]) is known()
    assert len(graph_module._by_frame) == before + 1
    del g
    gc.collect()
    assert known() is None
    assert len(graph_module._by_frame) == before


def test_edges_in_csc_order_are_gated_by_their_ids():
    g, gate = undirected(), ptd.EdgeGate(FEATS).eval()
    for name in ("csc", "csr"):
        torch.testing.assert_close(gate(g.formats(name), features(g)), gate(g, features(g)))


WITHOUT_DGL = """
import sys
sys.modules["dgl"] = None
import torch
import dgl_ptdnet as ptd
index = ptd.EdgeIndex(torch.tensor([0]), torch.tensor([0]), 1, 1)
print(ptd.aggregate(index, torch.ones(1, 2)).tolist())
try:
    ptd.Denoised
except ImportError as error:
    print(error)
"""


def test_operators_work_without_dgl_and_the_error_says_which_one_fits():
    done = subprocess.run([sys.executable, "-c", WITHOUT_DGL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[[1.0, 1.0]]" in done.stdout
    assert f"fits torch {torch.__version__}: dgl 1.1.3" in done.stdout

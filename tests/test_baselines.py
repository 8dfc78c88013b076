"""DropEdge and NeuralSparse."""

import dgl
import pytest
import torch
from gate_inputs import FEATS, features, undirected

import dgl_ptdnet as ptd
from dgl_ptdnet.graph import edges_of


@pytest.fixture(autouse=True)
def seed():
    """A test's draws do not depend on the tests before it."""
    torch.manual_seed(0)


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

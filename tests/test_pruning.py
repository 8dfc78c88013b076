"""The graph without dropped edges gives what the whole graph gives."""

import dgl
import pytest
import torch
from gate_inputs import FEATS, features, undirected
from torch import nn

import dgl_ptdnet as ptd


@pytest.fixture(autouse=True)
def seed():
    """A test's draws do not depend on the tests before it."""
    torch.manual_seed(0)


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


def test_a_plain_function_is_a_gate_and_ids_keep_their_dtype():
    g = dgl.graph(([0, 1, 2, 2], [1, 2, 0, 2]), idtype=torch.int32)
    for graph in (g, dgl.to_block(g)):
        small = ptd.prune(graph, lambda g, h: torch.tensor([1.0, 0.0, 0.5, 0.0]), torch.ones(3, 1))
        assert small.idtype == torch.int32
        assert small.edata["gate"].tolist() == [1.0, 0.5, 1.0]  # the self-loop stays


@pytest.mark.parametrize("threshold", [-0.1, 1.0, float("nan")])
def test_thresholds_that_would_keep_or_drop_all_are_refused(threshold):
    with pytest.raises(ValueError, match="threshold must be at least 0 and below 1"):
        ptd.prune(undirected(), ptd.EdgeGate(FEATS), torch.randn(40, FEATS), threshold=threshold)


def test_pruning_leaves_every_module_in_its_mode():
    gate = ptd.EdgeGate(FEATS)
    gate.mlp.eval()
    ptd.prune(undirected(), gate, torch.randn(40, FEATS))
    assert gate.training
    assert not gate.mlp.training

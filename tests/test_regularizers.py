"""The gates, the penalty and the temperature of a model."""

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


def test_penalty_of_a_model():
    g = dgl.add_self_loop(undirected())
    model = nn.ModuleList([dgl.nn.GraphConv(FEATS, 8), dgl.nn.GraphConv(8, 3)])
    ptd.denoise(model)
    with pytest.raises(ValueError, match="was not called yet"):
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


@pytest.mark.parametrize("num_edges", [0, 1, 90])
def test_penalty_per_edge_weighs_the_share_of_open_gates(num_edges):
    g = dgl.rand_graph(40, num_edges)
    gate = ptd.EdgeGate(FEATS, bias=0.5)
    gate(g, features(g))
    want = 3.0 * gate.penalty / num_edges if num_edges else torch.tensor(0.0)
    torch.testing.assert_close(ptd.penalty(gate, edges=3.0, per_edge=True), want)


def test_the_low_rank_term_starts_warm_on_graphs_and_leaves_nothing_of_blocks():
    g = undirected()
    block = dgl.to_block(dgl.in_subgraph(g, torch.arange(9)), torch.arange(9))
    gate = ptd.EdgeGate(FEATS)
    for graph, starts in ((block, 0), (g, 1)):
        gate(graph, torch.randn(graph.num_src_nodes(), FEATS))
        ptd.penalty(gate, rank=1.0)
        assert len(gate.low_rank.get_extra_state()) == starts


def test_the_authors_schedule():
    assert [ptd.temperature(epoch) for epoch in (0, 1, 10_000)] == [2.0, 2.0 * 0.99, 0.05]
    assert ptd.temperature(3, start=4.0, decay=0.5, minimum=0.1) == 0.5
    assert ptd.temperature(9, start=4.0, decay=0.5, minimum=0.1) == 0.1


def test_a_model_without_an_edge_gate_has_no_penalty():
    with pytest.raises(ValueError, match="model has no EdgeGate"):
        ptd.penalty(ptd.DropEdge(0.5), edges=1.0)

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

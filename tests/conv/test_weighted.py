"""Any convolution that takes edge weights gets the gates as those."""

import dgl
import pytest
import torch
from conv_inputs import IN, OUT, Fixed, gate_values, plain_graph, ungated
from dgl.nn import (
    APPNPConv,
    SGConv,
    TAGConv,
)

import dgl_ptdnet as ptd


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

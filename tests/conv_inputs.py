"""Graphs, convolutions and their dense twins, which the tests of layers share."""

import dgl
import torch
from dgl.nn import (
    GATConv,
    GATv2Conv,
    GINConv,
    GraphConv,
    SAGEConv,
)
from torch import nn

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


def ungated(g):
    """Which edges are self-loops, by hand."""
    src, dst = g.edges(order="eid")
    return src == dst if g.is_block or g.srctypes == g.dsttypes else torch.zeros(len(src), dtype=torch.bool)


def make(name, seed=0):
    torch.manual_seed(seed)
    return CONVS[name]()

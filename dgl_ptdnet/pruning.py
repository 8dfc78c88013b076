"""The graph that is left when dropped edges are gone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ._dgl import dgl
from .gate import call_gate
from .graph import ID, edges_of


@torch.no_grad()
def prune(g: Any, gate: nn.Module, h: Tensor | tuple[Tensor, Tensor], threshold: float = 0.0) -> Any:
    """The graph with only the edges that a gate keeps.

    Parameters
    ----------
    g : DGLGraph
        A graph with one edge type, or a block.
    gate : torch.nn.Module
        A gate, such as ``conv.gate`` of a denoised layer.
    h : torch.Tensor or tuple[torch.Tensor, torch.Tensor]
        What the layer is given: node features, or those of sources and destinations.
    threshold : float
        Keep edges with a gate above this, at least 0 and below 1; self-loops that are not gated stay. With 0 the layer
        computes the same on the smaller graph as on ``g``, in evaluation. Default: 0.0.

    Returns
    -------
    DGLGraph
        All nodes and their data; the kept edges and their data, their gates in ``edata["gate"]``, and in
        ``edata[dgl.EID]`` the ids that they have in ``g`` (or in the graph that ``g`` was itself taken from).

    Notes
    -----
    Gates are those of evaluation, whatever the mode of ``gate``.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> def gate(g, h):
    ...     return torch.tensor([1.0, 0.0, 0.5])
    >>> small = ptd.prune(g, gate, torch.randn(3, 8))
    >>> small.edata[dgl.EID].tolist(), small.edata["gate"].tolist()
    ([0, 2], [1.0, 0.5])
    """
    if not 0 <= threshold < 1:
        raise ValueError(f"threshold must be at least 0 and below 1; got {threshold}")
    training = [module for module in gate.modules() if module.training] if isinstance(gate, nn.Module) else []
    for module in training:
        module.training = False
    try:
        z = call_gate(gate, g, h)
    finally:
        for module in training:
            module.training = True
    chosen = (z > threshold).nonzero().flatten()
    small = keep_edges(g, chosen)
    small.edata["gate"] = z[chosen]
    return small


def keep_edges(g: Any, chosen: Tensor) -> Any:
    """The graph or block with only the edges numbered ``chosen``, and all nodes and data."""
    if not g.is_block:
        small = dgl.edge_subgraph(g, chosen.to(g.idtype), relabel_nodes=False)
    else:  # DGL makes no subgraph of a block
        ends = tuple(x[chosen] for x in (edges_of(g).index.src, edges_of(g).index.dst))
        sizes = ({g.srctypes[0]: g.num_src_nodes()}, {g.dsttypes[0]: g.num_dst_nodes()})
        small = dgl.create_block({g.canonical_etypes[0]: ends}, *sizes, idtype=g.idtype)
        for mine, data in ((small.srcdata, g.srcdata), (small.dstdata, g.dstdata)):
            mine.update(data)
        small.edata.update({name: x[chosen] for name, x in g.edata.items()})
    small.edata[ID] = g.edata[ID][chosen] if ID in g.edata else chosen.to(g.idtype)
    return small

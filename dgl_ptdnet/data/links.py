"""Held-out edges for link prediction."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._dgl import dgl
from .random_pairs import draw_pairs, generator
from .undirected import ends_of_pairs, graph_of_pairs, linked_pairs


class EdgeSplit(NamedTuple):
    """A graph without its held-out pairs, these pairs, and as many pairs without an edge.

    Attributes
    ----------
    graph : dgl.DGLGraph
        The training graph: both directions of every pair that is not held out, and the node data.
    val, val_not, test, test_not : torch.Tensor
        Pairs of nodes, int64 :math:`(n, 2)`: with and without an edge, for validation and for the test.

    Examples
    --------
    >>> from dgl_ptdnet.data import split_edges, synthetic
    >>> split = split_edges(synthetic().graph)
    >>> split.val.shape, split.test_not.shape
    (torch.Size([250, 2]), torch.Size([500, 2]))
    """

    graph: dgl.DGLGraph
    val: Tensor
    val_not: Tensor
    test: Tensor
    test_not: Tensor


def split_edges(g: dgl.DGLGraph, seed: int = 0, val: float = 0.05, test: float = 0.10) -> EdgeSplit:
    r"""Holds out random edges for link prediction, as GAE and the paper do.

    Parameters
    ----------
    g : dgl.DGLGraph
        The whole graph; it is not changed. Its edges are taken as undirected, and self-loops are left out. Noise edges,
        marked in ``g.edata["noise"]`` by :func:`add_noise_edges`, are never held out.
    seed : int
        Equal seeds give equal splits. Default: 0.
    val : float
        Share of the linked pairs to hold out for validation. Default: 0.05.
    test : float
        Share of the linked pairs to hold out for the test. Default: 0.1.

    Returns
    -------
    EdgeSplit
        The training graph, without the held-out pairs in either direction, and the pairs. Pairs without an edge are
        drawn uniformly; no pair is in two of the four sets.

    Examples
    --------
    >>> from dgl_ptdnet.data import split_edges, synthetic
    >>> split = split_edges(synthetic().graph)
    >>> split.graph.num_edges()  # 85 % of 5,000 pairs, both directions
    8500
    """
    if not (0 <= val < 1 and 0 <= test < 1 and val + test < 1):
        raise ValueError(f"val and test must be shares from 0 to 1 whose sum is below 1; got {val} and {test}")
    num_nodes, rng, linked = g.num_nodes(), generator(seed, "links"), linked_pairs(g)
    real = linked
    if "noise" in g.edata:
        real = linked_pairs(dgl.edge_subgraph(g, ~g.edata["noise"], relabel_nodes=False))
    num_val, num_test = int(val * len(real)), int(test * len(real))
    keys = rng.permutation(real)
    not_linked = np.stack(draw_pairs(rng, num_val + num_test, np.arange(num_nodes), taken=linked), 1)
    pairs = np.stack(ends_of_pairs(keys), 1)
    held = num_val + num_test
    kept = np.setdiff1d(linked, keys[:held], assume_unique=True)
    graph = graph_of_pairs(*ends_of_pairs(kept), num_nodes)
    graph.ndata.update(g.ndata)
    parts = (pairs[:num_val], not_linked[:num_val], pairs[num_val:held], not_linked[num_val:])
    return EdgeSplit(graph, *map(torch.from_numpy, parts))

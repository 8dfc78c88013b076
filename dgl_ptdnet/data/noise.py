"""Noise edges: random edges between nodes that have none."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._dgl import dgl
from ..ops import EdgeIndex, edge_dot
from .names import NOISE_KINDS
from .random_pairs import draw_pairs, generator
from .undirected import Ints, linked_pairs

_POOL = 16  # "similar" draws this many times the pairs that it needs


def add_noise_edges(g: dgl.DGLGraph, count: int, *, seed: int = 0, kind: str = "uniform") -> dgl.DGLGraph:
    r"""Connects random pairs of nodes that have no edge between them, in both directions.

    Parameters
    ----------
    g : dgl.DGLGraph
        A graph with one type of nodes and edges; it is not changed.
    count : int
        Number of pairs; the result has twice as many new edges.
    seed : int
        Equal seeds give equal edges. Default: 0.
    kind : str
        How the pairs are drawn:

        * ``"uniform"``: all pairs without an edge are equally likely, as in the paper;
        * ``"heterophilous"``: all such pairs with different ``ndata["label"]`` are equally likely;
        * ``"similar"``: 16 times as many uniform pairs are drawn, of which those with the largest cosine of
          ``ndata["feat"]`` are used;
        * ``"hubs"``: both nodes are drawn in proportion to their in-degree plus one.

        Default: ``"uniform"``.

    Returns
    -------
    dgl.DGLGraph
        The old edges in their order, then the new ones: all :math:`u \to v`, then all :math:`v \to u`.
        ``edata["noise"]``, bool :math:`(E,)`, marks the new edges and those already marked in ``g``. Node data is kept;
        other edge data is zero for new edges.

    Notes
    -----
    Self-loops are never added. A pair with an edge in either direction counts as linked.

    Examples
    --------
    >>> import dgl
    >>> from dgl_ptdnet.data import add_noise_edges
    >>> g = dgl.graph(([0, 1], [1, 0]), num_nodes=100)
    >>> noisy = add_noise_edges(g, 50)
    >>> noisy.num_edges(), int(noisy.edata["noise"].sum())
    (102, 100)
    """
    if kind not in NOISE_KINDS:
        raise ValueError(f"kind must be one of {', '.join(NOISE_KINDS)}; got {kind!r}")
    if count < 0:
        raise ValueError(f"count must not be negative; got {count}")
    if not g.is_homogeneous or g.is_block:
        raise ValueError("g must have one type of nodes and edges. Use dgl.to_homogeneous(g, ndata=[...])")
    rng, linked, any_two = generator(seed, "noise"), linked_pairs(g), np.arange(g.num_nodes())
    if kind == "uniform":
        pairs = draw_pairs(rng, count, any_two, taken=linked)
    elif kind == "heterophilous":
        pairs = draw_pairs(rng, count, _labels(g), taken=linked)
    elif kind == "hubs":
        weights = g.in_degrees().cpu().numpy() + 1.0
        pairs = draw_pairs(rng, count, any_two, taken=linked, first=weights, second=weights)
    else:
        free = len(any_two) * (len(any_two) - 1) // 2 - len(linked)
        pool = draw_pairs(rng, min(_POOL * count, max(count, free)), any_two, taken=linked)
        best = torch.argsort(_cosine(g, *pool), descending=True, stable=True)[:count].numpy()
        pairs = pool[0][best], pool[1][best]
    u, v = (torch.from_numpy(x).to(g.idtype).to(g.device) for x in pairs)
    old = g.local_var()
    old.edata["noise"] = g.edata.get("noise", torch.zeros(g.num_edges(), dtype=torch.bool, device=g.device))
    new = {"noise": torch.ones(2 * count, dtype=torch.bool, device=g.device)}
    return dgl.add_edges(old, torch.cat([u, v]), torch.cat([v, u]), new)


def _field(g: dgl.DGLGraph, field: str, kind: str) -> Tensor:
    if field not in g.ndata:
        raise ValueError(f'kind="{kind}" needs g.ndata["{field}"]. Set it, or choose kind="uniform"')
    return g.ndata[field].cpu()


def _labels(g: dgl.DGLGraph) -> Ints:
    label = _field(g, "label", "heterophilous")
    if label.dim() != 1 or (len(label) and label.min() < 0):
        raise ValueError('kind="heterophilous" needs one known label for each node. Choose another kind')
    return label.numpy().astype(np.int64)


def _cosine(g: dgl.DGLGraph, u: Ints, v: Ints) -> Tensor:
    feat = F.normalize(_field(g, "feat", "similar").float())
    index = EdgeIndex(torch.from_numpy(u), torch.from_numpy(v), g.num_nodes(), g.num_nodes())
    return edge_dot(index, feat, feat)

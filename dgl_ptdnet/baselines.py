"""Gates that others have proposed, with the interface of EdgeGate: they plug into every convolution."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .gate import Gate
from .graph import edge_ids, edges_of, split_features
from .mlp import EdgeMLP
from .ops import EdgeIndex, acc_dtype, degrees, edge_gate, edge_scores, uniform


class DropEdge(Gate):
    """Drops a random share of the edges in training (DropEdge, ICLR'20). In evaluation all edges stay.

    A :class:`Denoised` convolution normalises by the degrees of the edges that are left.

    Parameters
    ----------
    p : float
        The share to drop, 0 <= p < 1.

    Notes
    -----
    Called like :class:`EdgeGate`. The features are not used. Self-loops are not dropped.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.rand_graph(100, 2000)
    >>> drop = ptd.DropEdge(0.5)
    >>> 0.4 < drop(g, torch.randn(100, 8)).mean() < 0.6
    tensor(True)
    >>> drop.eval()(g, torch.randn(100, 8)).min()
    tensor(1.)
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"p must be at least 0 and less than 1; got {p}")
        self.p = p

    def extra_repr(self) -> str:
        return f"p={self.p}"

    def forward(self, g: Any, h: Any) -> Tensor:
        edges = edges_of(g)
        index, like = edges.index, split_features(g, h)[0]
        noise = self.draw()
        acc = acc_dtype(like)
        if noise is None or self.p == 0:
            return self.remember(edges, like.new_ones(index.num_edges, dtype=acc))
        # A cold gate with the same logit everywhere is a coin for each edge, keyed by its id.
        zeros = [like.new_zeros(count, 1, dtype=acc) for count in (index.num_src, index.num_dst)]
        logit = like.new_tensor(math.log1p(-self.p) - math.log(self.p), dtype=acc)
        one = like.new_ones(1, dtype=acc)
        z = edge_gate(
            *(index.src, index.dst, *zeros, one, logit), tau=1e-6, noise=noise, edge_ids=edge_ids(g), index=index
        )
        return self.remember(edges, (z > 0.5).to(acc))


class NeuralSparse(Gate):
    r"""Keeps at most k edges at every node, chosen by a learned score (NeuralSparse, ICML'20).

    An MLP on :math:`[h_u, h_v]` scores the edges; k of each destination's edges are drawn without replacement by
    Gumbel noise on the scores. Their gates are the relaxed draws: for each draw the softmax, with temperature tau, over
    the edges that were not drawn before, summed over the draws and at most 1. Other edges have gate 0, self-loops
    gate 1. In evaluation there is no noise. Time and memory grow with the number of edges, not with nodes x nodes.

    Parameters
    ----------
    in_feats : int or tuple[int, int]
        Size of the node features; a pair for sources and destinations of different size.
    k : int
        The maximum number of edges that a node keeps, besides its self-loop. A node with k edges or fewer keeps all,
        with gate 1.
    hidden : int
        Hidden units of the MLP. Default: 64.
    tau : float
        Temperature, an attribute as in :class:`EdgeGate`. Default: 1.0.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.remove_self_loop(dgl.rand_graph(100, 2000))
    >>> sparse = ptd.NeuralSparse(8, k=5)
    >>> z = sparse(g, torch.randn(100, 8))
    >>> int(torch.zeros(100).index_add(0, g.edges()[1], (z > 0).float()).max())
    5
    """

    def __init__(self, in_feats: int | tuple[int, int], k: int, *, hidden: int = 64, tau: float = 1.0) -> None:
        super().__init__()
        if k < 1 or hidden < 1 or not tau > 0:
            raise ValueError(f"k and hidden must be at least 1, tau positive; got {k}, {hidden} and {tau}")
        self.mlp = EdgeMLP(in_feats, hidden, tower=0, symmetric=False)
        self.k, self.tau = k, tau

    def extra_repr(self) -> str:
        return f"k={self.k}"

    def forward(self, g: Any, h: Any) -> Tensor:
        edges = edges_of(g)
        index = edges.index
        h_src, h_dst = split_features(g, h)
        p, q, w = self.mlp(h_src, h_dst, not isinstance(h, tuple))
        keys = edge_scores(index, p, q, w)
        noise = self.draw()
        if noise is not None:
            ids = edge_ids(g)
            if ids is None:
                ids = torch.arange(index.num_edges, device=keys.device)
            keys = keys - torch.log(-torch.log(uniform(noise, ids).to(keys.dtype)))
        return self.remember(edges, self._choose(index, keys))

    def _choose(self, index: EdgeIndex, keys: Tensor) -> Tensor:
        dst, in_ptr = index.dst.long(), index.tensors.in_ptr.long()
        x = keys / self.tau
        with torch.no_grad():
            order = x.argsort(descending=True, stable=True)
            order = order[dst[order].argsort(stable=True)]
            many = in_ptr.diff() > self.k  # others keep all their edges
            begin = in_ptr[:-1][many]
            drawn = order[begin[:, None] + torch.arange(self.k, device=order.device)]  # the k largest of each
            rest = many[dst].index_fill(0, drawn.flatten(), False)
            highest = x.new_zeros(index.num_dst).masked_scatter(many, x[order[begin + self.k]])
        # Logarithms of the sums that draw k, k - 1, ... 0 chooses from: each has one edge more than the one before it.
        weights = torch.exp(torch.where(rest, x - highest[dst], -math.inf))
        sums = [highest[many] + torch.log(degrees(index, weights)[many])]
        largest = x[drawn]
        for place in range(self.k - 1, -1, -1):
            sums.append(torch.logaddexp(largest[:, place], sums[-1]))
        shares = torch.exp(largest + torch.logcumsumexp(-torch.stack(sums[:0:-1], 1), 1)).clamp(max=1)
        return (~many[dst]).to(x.dtype).index_put((drawn.flatten(),), shares.flatten())

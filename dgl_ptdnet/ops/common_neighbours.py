"""Common neighbours of pairs of nodes: public function and fake. The kernel is in ``csrc/``."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _library
from .index import EdgeIndex


def common_neighbours(index: EdgeIndex, u: Tensor, v: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""The number of neighbours that two nodes have in common, each weighted by the product of its edges' weights.

    .. math::
        \mathrm{out}_i = \sum_{e = (k, u_i),\ f = (k, v_i)} w_e \, w_f

    Parameters
    ----------
    index : EdgeIndex
        The edges, on the CPU. The sources of each destination's edges must be in ascending order, as they are when the
        edges are sorted by source. The neighbours of a node are the sources of the edges that enter it; for an
        undirected graph the index has every edge in both directions.
    u, v : torch.Tensor
        The pairs of nodes, int64 :math:`(P,)`.
    weight : torch.Tensor, optional
        Weights of the edges, :math:`(E,)`. Default: ``None``, every weight is 1.

    Returns
    -------
    torch.Tensor
        float64 :math:`(P,)`, without gradient.

    Notes
    -----
    The time of a pair grows with the sum of both degrees, or, where one node is a hub, with the smaller degree times
    the logarithm of the larger. Results have the same bits for any number of threads.

    Examples
    --------
    >>> import torch
    >>> from dgl_ptdnet.ops import EdgeIndex, common_neighbours
    >>> src, dst = torch.tensor([[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]])    # a triangle, both directions
    >>> common_neighbours(EdgeIndex(src, dst, 3, 3), torch.tensor([0, 0]), torch.tensor([1, 0]))
    tensor([1., 2.], dtype=torch.float64)
    """
    if index.src.device.type != "cpu":
        raise ValueError(f"index is on {index.src.device}; common_neighbours runs on the CPU. Make the index there")
    if weight is None:
        weight = torch.ones(index.num_edges, dtype=torch.float64)
    return torch.ops.dgl_ptdnet.common_neighbours(index.tensors, weight.detach().double(), u, v)


@_library.register_fake("common_neighbours")
def _(index: list[Tensor], weight: Tensor, u: Tensor, v: Tensor) -> Tensor:
    return weight.new_empty(u.shape)

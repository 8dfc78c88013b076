"""Common neighbours of pairs of nodes: public function and fake. The kernel is in ``csrc/``."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _library
from .index import EdgeIndex


def common_neighbours(index: EdgeIndex, u: Tensor, v: Tensor, weight: Tensor | None = None) -> Tensor:
    r"""How many neighbours two nodes have in common, each counted by the weights of the edges that join it.

    .. math::
        \mathrm{out}_i = \sum_{e = (k, u_i),\ f = (k, v_i)} w_e \, w_f

    Parameters
    ----------
    index : EdgeIndex
        The edges, sorted by source, on the CPU. A neighbour is the source of an edge; for an undirected graph the
        index has every edge in both directions.
    u, v : torch.Tensor
        The pairs of nodes, int64 :math:`(P,)`.
    weight : torch.Tensor, optional
        Weights of the edges, :math:`(E,)`. Default: ``None``, every edge counts 1.

    Returns
    -------
    torch.Tensor
        float64 :math:`(P,)`, without gradient.

    Notes
    -----
    A pair costs the degree of both nodes, or the smaller degree times the logarithm of the larger where one node is a
    hub. The bits do not depend on the number of threads.

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

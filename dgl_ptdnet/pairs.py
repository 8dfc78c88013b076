"""Unordered pairs of nodes as single numbers."""

from __future__ import annotations

import torch
from torch import Tensor

_BITS = 31  # an EdgeIndex admits no more nodes than that


def pair_ids(u: Tensor, v: Tensor) -> Tensor:
    """The id of each unordered pair {u, v}: the same for (u, v) and (v, u), different for different pairs.

    Parameters
    ----------
    u, v : torch.Tensor
        Node numbers below 2^31, :math:`(n,)`, int32 or int64.

    Returns
    -------
    torch.Tensor
        int64 :math:`(n,)`. Ids are ordered by the smaller node, then by the larger one.

    Examples
    --------
    >>> import torch
    >>> from dgl_ptdnet.pairs import pair_ends, pair_ids
    >>> ids = pair_ids(torch.tensor([1, 5]), torch.tensor([5, 1]))
    >>> bool(ids[0] == ids[1]), [x.tolist() for x in pair_ends(ids)]
    (True, [[1, 1], [5, 5]])
    """
    u, v = u.long(), v.long()
    return torch.minimum(u, v) << _BITS | torch.maximum(u, v)


def pair_ends(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The smaller and the larger node of each pair, int64."""
    return ids >> _BITS, ids & ((1 << _BITS) - 1)

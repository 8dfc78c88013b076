"""Uniform random numbers by edge id: the public function and its fake. The kernels are in ``csrc/``."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _library


def uniform(noise: Tensor, edge_ids: Tensor) -> Tensor:
    """A random number in (0, 1) for every edge: the noise that :func:`edge_gate` samples its gates with.

    Parameters
    ----------
    noise : torch.Tensor
        ``(seed, offset)``, int64 :math:`(2,)`.
    edge_ids : torch.Tensor
        The number that an edge's noise is drawn from, int64 :math:`(E,)`. Equal ids have equal draws.

    Returns
    -------
    torch.Tensor
        float32 :math:`(E,)`, never 0 or 1; the same numbers on every device and for any number of threads.

    Examples
    --------
    >>> import torch
    >>> from dgl_ptdnet.ops import uniform
    >>> uniform(torch.tensor([7, 0]), torch.arange(3)).shape
    torch.Size([3])
    """
    _library.check_tensors(noise=noise, edge_ids=edge_ids)
    return torch.ops.dgl_ptdnet.uniform(noise, edge_ids)


@_library.register_fake("uniform")
def _(noise: Tensor, edge_ids: Tensor) -> Tensor:
    return noise.new_empty(edge_ids.shape, dtype=torch.float32)

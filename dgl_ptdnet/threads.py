"""The number of torch's threads inside of a ``with`` block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Sets the number of torch's threads inside of a ``with`` block.

    Large matrix products, LAPACK's eigenvectors and DGL's samplers give other bits with other numbers of threads. With
    one thread their bits are the same everywhere.

    Examples
    --------
    >>> import torch
    >>> from dgl_ptdnet.threads import torch_threads
    >>> with torch_threads(1):
    ...     torch.get_num_threads()
    1
    """
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)

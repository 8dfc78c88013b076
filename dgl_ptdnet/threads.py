"""How many threads torch uses, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Runs a block with so many threads, then sets back what there was before.

    Large matrix products, LAPACK's eigenvectors and DGL's samples depend on how many there are: with one, their bits
    are the same everywhere.

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

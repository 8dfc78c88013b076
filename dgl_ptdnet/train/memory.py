"""Memory of large results that is kept for the next ones."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def keep_freed_memory() -> None:
    """Makes the process keep up to 256 MB of freed memory, in blocks of up to 32 MB.

    Each epoch allocates large results of the same sizes. By default glibc returns such blocks to the system when they
    are freed; on small graphs, page faults of the next allocation took up to a quarter of an epoch. This changes malloc
    for the whole process, so only programs call it, never library code. Without glibc it does nothing.

    Examples
    --------
    >>> from dgl_ptdnet.train.memory import keep_freed_memory
    >>> keep_freed_memory()
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 32 << 20)
        mallopt(_TRIM_THRESHOLD, 256 << 20)

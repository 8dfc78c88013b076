"""Memory of large results, kept for the next ones."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of glibc's mallopt


def keep_freed_memory() -> None:
    """Lets the process keep up to 256 MB of what is freed, in blocks of up to 32 MB.

    Each epoch makes the same large results. glibc gives such blocks back to the system as they are freed, and gets them
    anew: on small graphs touching fresh pages took up to a quarter of an epoch. Without glibc nothing is done.

    Examples
    --------
    >>> from dgl_ptdnet.train.memory import keep_freed_memory
    >>> keep_freed_memory()
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, 32 << 20)
        mallopt(_TRIM_THRESHOLD, 256 << 20)

"""Errors of files that are not what they should be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """In a block that reads files: a broken one raises nearly anything; what comes out names the file.

    Examples
    --------
    >>> from dgl_ptdnet.data.reading import reading
    >>> with reading(Path("mine.npz")):
    ...     {}["edges"]
    Traceback (most recent call last):
    ValueError: mine.npz cannot be read (KeyError: 'edges'). Is it whole, and laid out as dgl_ptdnet.data.load says?
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (ValueError, OSError)) and str(path) in str(error):
            raise
        words = (str(error).strip() or "no more is known").splitlines()[0][:200]
        raise ValueError(
            f"{path} cannot be read ({type(error).__name__}: {words}). Is it whole, and laid out as "
            "dgl_ptdnet.data.load says?"
        ) from error

"""Errors of broken files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import first_line


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Wraps code that reads a file, which raises nearly anything if the file is broken: the error names the file.

    Examples
    --------
    >>> from dgl_ptdnet.data.reading import reading
    >>> with reading(Path("mine.npz")):
    ...     {}["edges"]
    Traceback (most recent call last):
    ValueError: mine.npz cannot be read (KeyError: 'edges'). Is it complete, and of a format that data.load describes?
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (ValueError, OSError)) and str(path) in str(error):
            raise
        raise ValueError(
            f"{path} cannot be read ({type(error).__name__}: {first_line(error)}). Is it complete, and of a format "
            "that data.load describes?"
        ) from error

"""Errors of other libraries, shortened for a message of ours."""

from __future__ import annotations


def first_line(error: BaseException) -> str:
    """The first line of an error's message, at most 200 characters; the error's class if it has no message.

    Examples
    --------
    >>> from dgl_ptdnet.errors import first_line
    >>> first_line(RuntimeError("cannot allocate\\nstack trace: ..."))
    'cannot allocate'
    >>> first_line(EOFError())
    'EOFError'
    """
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]

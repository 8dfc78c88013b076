"""Files that are there as a whole or not at all."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PARTIAL = ".dgl-ptdnet-"  # begins the names of files that are not whole yet


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes from writing into a folder, and takes away what one that was killed left half-written."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(f"another process is at work in {folder}. Wait for it") from error
        for partial in folder.glob(f"{_PARTIAL}*"):
            partial.unlink()
        yield


def write_whole(path: Path, content: bytes | str) -> None:
    """Writes a file so that, whatever happens, either the old or the new one is there."""
    data = content.encode() if isinstance(content, str) else content
    descriptor, temporary = tempfile.mkstemp(prefix=f"{_PARTIAL}{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

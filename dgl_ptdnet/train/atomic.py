"""Files that are written as a whole or not at all, and folders that one process uses at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PARTIAL = ".dgl-ptdnet-"  # prefix of files that are not complete yet


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Locks a folder against other processes, and deletes incomplete files that a killed process left in it."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = folder / ".lock"
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if not lock.is_symlink():
            raise
        raise ValueError(f"{lock} is a symbolic link. Delete it") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ValueError(f"another process is using {folder}. Wait until it has ended") from error
        for partial in folder.glob(f"{_PARTIAL}*"):
            partial.unlink()
        yield
    finally:
        os.close(descriptor)


def write_atomic(path: Path, content: bytes | str) -> None:
    """Writes a file such that at any moment, also after a crash, either the old or the new content is there."""
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

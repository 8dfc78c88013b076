"""Packages whose names are imported at first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a package: each name is imported from its module at first use.

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    modules : mapping
        The module, relative to the package, of every name; "" for a name that is a module itself.

    Examples
    --------
    >>> from dgl_ptdnet._lazy import lazy
    >>> get, names = lazy("dgl_ptdnet", {"first_line": "errors"})
    >>> get("first_line")(EOFError()), names()
    ('EOFError', ['first_line'])
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not modules[name]:
            return import_module(f".{name}", package)
        value = getattr(import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: sorted(modules)

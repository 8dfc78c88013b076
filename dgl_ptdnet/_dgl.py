"""DGL, or an error that says which one fits."""

from __future__ import annotations

import os

import torch

os.environ.setdefault("DGLBACKEND", "pytorch")  # else DGL writes a file to the home folder and says so

try:
    import dgl
except Exception as error:  # DGL fails in many ways: a missing package, a missing library, a wrong torch
    raise ImportError(
        f"DGL cannot be imported ({type(error).__name__}: {error}). The operators of dgl_ptdnet work without it; its "
        f"layers need one that fits torch {torch.__version__}: dgl 1.1.3 (`pip install dgl==1.1.3 packaging`), which "
        "works with torch 2.2 and newer, or dgl 2.1.0, which works with torch 2.2.1 and older. CUDA builds of DGL end "
        "at torch 2.4"
    ) from error

__all__ = ["dgl"]

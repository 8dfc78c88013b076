"""Loads the compiled operators, and what their Python files share."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Callable

import torch

try:
    from .. import _C
except ImportError as error:
    raise ImportError(
        f"dgl_ptdnet's compiled operators cannot be loaded ({error}). They are built against one torch: after a change "
        f"of torch (now {torch.__version__}) build again with `make build` or "
        "`pip install --no-build-isolation --force-reinstall --no-deps .`"
    ) from error

if hasattr(torch.compiler, "is_compiling"):
    is_compiling = torch.compiler.is_compiling
else:  # torch 2.2
    is_compiling = import_module("torch._dynamo.external_utils").is_compiling

_NAME = "dgl_ptdnet"
_library = torch.library.Library(_NAME, "IMPL")
_CUDA = next(iter(sorted(Path(__file__).parents[1].glob("_cuda*.so"))), None)

if _CUDA is not None and torch.version.cuda is not None:
    torch.ops.load_library(str(_CUDA))


def build_info() -> dict[str, Any]:
    """What the operators were built with and which instruction set they run on.

    Returns
    -------
    dict
        ``torch``, ``compiler``, ``openmp``; ``cpu_level``: ``avx512``, ``avx2`` or ``portable``; ``cuda`` and
        ``cuda_archs``:
        what the CUDA kernels were built for, or None; ``cuda_loaded``: whether they are there.

    Examples
    --------
    >>> import dgl_ptdnet as ptd
    >>> ptd.build_info()["cpu_level"] in ("avx512", "avx2", "portable")
    True
    """
    return {**_C.build_info(), "cuda_loaded": _CUDA is not None and torch.version.cuda is not None}


def release_memory() -> None:
    """Gives the memory that is kept for results to come back to the system.

    Large results on a CPU reuse the memory of earlier ones: fresh memory costs about as much time as the work on it.
    What is kept and what is in use are together never more than what once was in use, and no more than an eighth of the
    machine's memory is kept.

    Examples
    --------
    >>> import dgl_ptdnet as ptd
    >>> ptd.release_memory()
    """
    _C.release_memory()


def _qualified(name: str) -> str:
    return f"{_NAME}::{name}"


def register_fake(name: str) -> Callable:
    register = getattr(torch.library, "register_fake", None) or torch.library.impl_abstract
    return register(_qualified(name))


def check_tensors(**tensors: Any) -> None:
    """What C++ cannot say well: that an argument is no tensor."""
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor; got {type(value).__name__}")


def as_autocast(*tensors: Any) -> list[Any]:
    """What torch's own products would be given: under autocast its dtype. None stays None."""
    device = tensors[0].device.type
    if hasattr(torch, "get_autocast_dtype"):
        enabled, low = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    elif device == "cpu":  # torch 2.2 and 2.3
        enabled, low = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
    else:
        enabled, low = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
    return [t if t is None or not enabled or t.dtype == torch.float64 else t.to(low) for t in tensors]

"""Loads the compiled operators and registers their fakes, for torch 2.2 and newer."""

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
_CUDA = next(iter(sorted(Path(__file__).parents[1].glob("_cuda*.so"))), None) if torch.version.cuda else None

if _CUDA is not None:
    torch.ops.load_library(str(_CUDA))


def build_info() -> dict[str, Any]:
    """How the operators were built, and the instruction set that they run on.

    Returns
    -------
    dict
        ``torch``, ``compiler``, ``openmp``: what the operators were built with. ``cpu_level``: the instruction set,
        ``avx512``, ``avx2`` or ``portable``. ``cuda`` and ``cuda_archs``: the CUDA version and the architectures that
        the CUDA kernels were built for, or None. ``cuda_loaded``: whether the CUDA kernels are loaded.

    Examples
    --------
    >>> import dgl_ptdnet as ptd
    >>> ptd.build_info()["cpu_level"] in ("avx512", "avx2", "portable")
    True
    """
    return {**_C.build_info(), "cuda_loaded": _CUDA is not None}


def release_memory() -> None:
    """Returns cached result memory to the system.

    Large CPU results reuse the memory of earlier ones, because the system needs about as long to provide new memory as
    the operators need to fill it. Each time a result is freed, the cache shrinks until cached and used memory together
    do not exceed the peak of used memory, and the cache holds at most an eighth of the machine's memory.

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
    """Raises TypeError for an argument that is no tensor, with a clearer message than torch's own."""
    for name, value in tensors.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{name} must be a torch.Tensor; got {type(value).__name__}")


def as_autocast(*tensors: Any) -> list[Any]:
    """The tensors in the dtype that autocast gives to torch's matrix products. None and float64 stay as they are."""
    device = tensors[0].device.type
    if hasattr(torch, "get_autocast_dtype"):
        enabled, low = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    elif device == "cpu":  # torch 2.2 and 2.3
        enabled, low = torch.is_autocast_cpu_enabled(), torch.get_autocast_cpu_dtype()
    else:
        enabled, low = torch.is_autocast_enabled(), torch.get_autocast_gpu_dtype()
    return [t if t is None or not enabled or t.dtype == torch.float64 else t.to(low) for t in tensors]

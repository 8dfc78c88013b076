"""Emulated launchers, called with the structs of csrc."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}

pointer, long, integer, double = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double


def fields(**types: Any) -> list[tuple[str, Any]]:
    return [(name, kind) for names, kind in types.items() for name in names.split("__")]


def at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


class LaunchShape(ctypes.Structure):
    _fields_ = fields(threads__edges_per_lane__max_blocks=integer)

    def __init__(self, threads: int = 256, edges_per_lane: int = 8, max_blocks: int = 2048) -> None:
        super().__init__(threads, edges_per_lane, max_blocks)


class EdgeSide(ctypes.Structure):
    _fields_ = fields(ptr__node__edge=pointer, rows__others__edges=long)


def acc_dtype(rows: torch.dtype) -> torch.dtype:
    return torch.float64 if rows == torch.float64 else torch.float32


class Draws:
    """Random arguments for kernels, equal for equal seeds: numbers, by default in the accumulators' dtype, and ids."""

    def __init__(self, seed: int, edges: int, rows: torch.dtype) -> None:
        self.random, self.edges, self.acc = torch.Generator().manual_seed(seed), edges, acc_dtype(rows)

    def numbers(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        return torch.randn(size, generator=self.random, dtype=torch.float64).to(dtype or self.acc)

    def ids(self, count: int) -> Tensor:
        return torch.randint(0, max(count, 1), (self.edges,), generator=self.random)


def unwritten(*size: int, dtype: torch.dtype) -> Tensor:
    """Results, so that a number nobody writes is seen."""
    return torch.full(size, float("nan") if dtype.is_floating_point else -7, dtype=dtype)


def edge_index(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, ...]:
    """The tensors of an EdgeIndex, by stable sorts."""

    def pointers(ids: Tensor, count: int) -> Tensor:
        return torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(ids, minlength=count).cumsum(0)])

    in_edge = torch.argsort(dst, stable=True)
    in_src, in_dst = src[in_edge], dst[in_edge]
    out_pos = torch.argsort(in_src, stable=True)
    out = pointers(src, num_src), out_pos, in_dst[out_pos], in_edge[out_pos]
    return tuple(x.int().contiguous() for x in (pointers(dst, num_dst), in_src, in_dst, in_edge, *out))


class Library:
    """What build.py made; ``structs`` are the arguments of its launchers, by their names in C++."""

    def __init__(self, library: Path, *structs: type[ctypes.Structure]) -> None:
        self.library = ctypes.CDLL(str(library))
        for kind in (LaunchShape, *structs):
            size = getattr(self.library, f"size_of_{kind.__name__}")
            size.restype = ctypes.c_size_t
            if size() != ctypes.sizeof(kind):
                raise TypeError(f"{kind.__name__} does not match its C++ struct: bring it up to date")
            if kind is not LaunchShape:
                getattr(self.library, f"launch_{kind.__name__}").restype = ctypes.c_char_p

    def set_schedule(self, seed: int, resident: int) -> None:
        self.library.emulated_options(ctypes.c_uint64(seed), resident)

    def launch(self, args: ctypes.Structure, shape: LaunchShape) -> None:
        problem = getattr(self.library, f"launch_{type(args).__name__}")(ctypes.byref(args), ctypes.byref(shape))
        if problem is not None:
            raise RuntimeError(problem.decode())


def bits_equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    views = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return a.keys() == b.keys() and all(
        torch.equal(x.view(views[x.itemsize]), b[name].view(views[x.itemsize])) for name, x in a.items()
    )

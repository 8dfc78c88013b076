"""The emulated kernels, called with tensors."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DTYPES = {torch.float32: 0, torch.float64: 1, torch.bfloat16: 2, torch.float16: 3}
SLOPES = {"relu": 0.0, "leaky_relu": 0.01, "identity": 1.0}

_pointer, _long, _double = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


def _fields(**types: Any) -> list[tuple[str, Any]]:
    return [(name, kind) for names, kind in types.items() for name in names.split("__")]


class IndexView(ctypes.Structure):
    _fields_ = _fields(in_ptr__in_src__in_dst__in_edge__out_ptr__out_pos=_pointer, edges__num_src__num_dst=_long)


class Inputs(ctypes.Structure):
    _fields_ = _fields(
        index=IndexView,
        dtype=ctypes.c_int,
        p__q=_pointer,
        p_stride__q_stride__hidden=_long,
        w=_pointer,
        negative_slope__tau__gamma__zeta=_double,
        noisy=ctypes.c_bool,
    )


class ForwardArgs(ctypes.Structure):
    _fields_ = _fields(inputs=Inputs, c__edge_bias__noise__edge_ids__z__penalty__mask__logit=_pointer)


class BackwardArgs(ctypes.Structure):
    _fields_ = _fields(
        inputs=Inputs,
        z__mask__logit__grad_z__grad_penalty__grad_p__grad_q__grad_w__grad_c__grad_bias__records=_pointer,
    )


class Shape(ctypes.Structure):
    """LaunchShape of csrc/cuda/edge_gate.h."""

    _fields_ = _fields(threads__edges_per_lane__max_blocks=ctypes.c_int)

    def __init__(self, threads: int = 256, edges_per_lane: int = 8, max_blocks: int = 2048) -> None:
        super().__init__(threads, edges_per_lane, max_blocks)


@dataclass
class Case:
    """A call of the operator, and the gradients that arrive at its outputs."""

    src: Tensor
    dst: Tensor
    p: Tensor
    q: Tensor
    w: Tensor
    c: Tensor
    edge_bias: Tensor | None = None
    noise: Tensor | None = None
    edge_ids: Tensor | None = None
    activation: str = "relu"
    tau: float = 1.0
    gamma: float = -0.1
    zeta: float = 1.1
    penalty: bool = False
    grad_z: Tensor | None = None
    grad_penalty: Tensor | None = None


def edge_index(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, ...]:
    """in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos, by stable sorts."""

    def pointers(ids: Tensor, count: int) -> Tensor:
        return torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(ids, minlength=count).cumsum(0)])

    in_edge = torch.argsort(dst, stable=True)
    in_src, in_dst = src[in_edge], dst[in_edge]
    out_pos = torch.argsort(in_src, stable=True)
    index = (pointers(dst, num_dst), in_src, in_dst, in_edge, pointers(src, num_src), out_pos)
    return tuple(x.int().contiguous() for x in index)


def _at(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


class Kernels:
    """A library that build.py made."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))
        self.library.emulated_size.restype = ctypes.c_size_t
        self.library.emulated_forward.restype = ctypes.c_char_p
        self.library.emulated_backward.restype = ctypes.c_char_p
        for what, kind in enumerate((ForwardArgs, BackwardArgs, Shape)):
            if self.library.emulated_size(what) != ctypes.sizeof(kind):
                raise TypeError(f"{kind.__name__} does not match its C++ struct: bring it up to date")

    def draws(self, ids: Tensor, seed: int, offset: int) -> Tensor:
        bits = torch.zeros(len(ids), dtype=torch.int32)
        words = ctypes.c_uint64(seed), ctypes.c_uint64(offset)
        self.library.emulated_draws(_pointer(_at(ids)), _long(len(ids)), *words, _pointer(_at(bits)))
        return bits.long() & 0xFFFFFFFF

    def __call__(self, case: Case, shape: Shape | None = None, seed: int = 0, resident: int = 1) -> dict[str, Tensor]:
        """Outputs, what is kept for the backward, and gradients. All that is not written stays NaN."""
        shape = shape or Shape()
        self.library.emulated_options(ctypes.c_uint64(seed), resident)
        hidden, edges = case.p.shape[1], len(case.src)
        acc = torch.float64 if case.p.dtype == torch.float64 else torch.float32
        index = edge_index(case.src, case.dst, len(case.p), len(case.q))
        inputs = Inputs(
            IndexView(*map(_at, index), edges, len(case.p), len(case.q)),
            DTYPES[case.p.dtype],
            _at(case.p),
            _at(case.q),
            case.p.stride(0),
            case.q.stride(0),
            hidden,
            _at(case.w),
            SLOPES[case.activation],
            case.tau,
            case.gamma,
            case.zeta,
            case.noise is not None,
        )

        def unwritten(*size: int, dtype: torch.dtype = acc) -> Tensor:
            return torch.full(size, float("nan"), dtype=dtype)

        mask_bytes = 0 if hidden == 1 else (hidden + 7) // 8
        out = {"z": unwritten(edges), "mask": torch.full((edges, mask_bytes), 255, dtype=torch.uint8)}
        if case.penalty:
            out |= {"penalty": unwritten(), "logit": unwritten(edges)}
        kept = [_at(out.get(name)) for name in ("z", "penalty", "mask", "logit")]
        if mask_bytes == 0:
            kept[2] = None
        given = [_at(x) for x in (case.c, case.edge_bias, case.noise, case.edge_ids)]
        self._check(
            self.library.emulated_forward(ctypes.byref(ForwardArgs(inputs, *given, *kept)), ctypes.byref(shape))
        )
        if case.grad_z is None and case.grad_penalty is None:
            return out

        grads = {
            "grad_p": unwritten(*case.p.shape, dtype=case.p.dtype),
            "grad_q": unwritten(*case.q.shape, dtype=case.p.dtype),
            "grad_w": unwritten(hidden),
            "grad_c": unwritten(),
            "grad_bias": unwritten(edges),
        }
        arrived = [_at(x) for x in (case.grad_z, case.grad_penalty)]
        args = BackwardArgs(inputs, kept[0], kept[2], kept[3], *arrived, *map(_at, grads.values()), None)
        self._check(self.library.emulated_backward(ctypes.byref(args), ctypes.byref(shape)))
        return out | grads

    @staticmethod
    def _check(problem: bytes | None) -> None:
        if problem is not None:
            raise RuntimeError(problem.decode())


def bits_equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    views = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    return a.keys() == b.keys() and all(
        torch.equal(x.view(views[x.itemsize]), b[name].view(views[x.itemsize])) for name, x in a.items()
    )

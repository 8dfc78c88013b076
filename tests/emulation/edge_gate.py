"""The emulated edge gate, called with tensors."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .library import (
    DTYPES,
    LaunchShape,
    Library,
    acc_dtype,
    at,
    double,
    edge_index,
    fields,
    integer,
    long,
    pointer,
    unwritten,
)

SLOPES = {"relu": 0.0, "leaky_relu": 0.01, "identity": 1.0}


class EdgeIndexView(ctypes.Structure):
    _fields_ = fields(
        in_ptr__in_src__in_dst__in_edge__out_ptr__out_pos__out_dst__out_edge=pointer, edges__num_src__num_dst=long
    )


class EdgeGateInputs(ctypes.Structure):
    _fields_ = fields(
        index=EdgeIndexView,
        dtype=integer,
        p__q=pointer,
        p_stride__q_stride__hidden=long,
        w=pointer,
        negative_slope__tau__gamma__zeta=double,
        noisy=ctypes.c_bool,
    )


class EdgeGateForward(ctypes.Structure):
    _fields_ = fields(inputs=EdgeGateInputs, c__edge_bias__noise__edge_ids__z__penalty__mask__logit=pointer)


class EdgeGateBackward(ctypes.Structure):
    _fields_ = fields(
        inputs=EdgeGateInputs,
        z__mask__logit__grad_z__grad_penalty__grad_p__grad_q__grad_w__grad_c__grad_bias=pointer,
    )


class Uniform(ctypes.Structure):
    _fields_ = fields(noise__edge_ids=pointer, edges=long, out=pointer)


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


class Kernels(Library):
    """A library that build.py made of the edge gate."""

    def __init__(self, library: Path) -> None:
        super().__init__(library, EdgeGateForward, EdgeGateBackward, Uniform)

    def draws(self, ids: Tensor, seed: int, offset: int) -> Tensor:
        bits = torch.zeros(len(ids), dtype=torch.int32)
        words = ctypes.c_uint64(seed), ctypes.c_uint64(offset)
        self.library.emulated_draws(pointer(at(ids)), long(len(ids)), *words, pointer(at(bits)))
        return bits.long() & 0xFFFFFFFF

    def uniform(self, noise: Tensor, ids: Tensor, shape: LaunchShape) -> Tensor:
        out = unwritten(len(ids), dtype=torch.float32)
        self.launch(Uniform(at(noise), at(ids), len(ids), at(out)), shape)
        return out

    def __call__(
        self, case: Case, shape: LaunchShape | None = None, seed: int = 0, resident: int = 1
    ) -> dict[str, Tensor]:
        """Outputs, what is kept for the backward, and gradients. All that is not written stays NaN."""
        shape = shape or LaunchShape()
        self.set_schedule(seed, resident)
        hidden, edges = case.p.shape[1], len(case.src)
        acc = acc_dtype(case.p.dtype)
        index = edge_index(case.src, case.dst, len(case.p), len(case.q))
        inputs = EdgeGateInputs(
            EdgeIndexView(*map(at, index), edges, len(case.p), len(case.q)),
            *(DTYPES[case.p.dtype], at(case.p), at(case.q), case.p.stride(0), case.q.stride(0), hidden, at(case.w)),
            *(SLOPES[case.activation], case.tau, case.gamma, case.zeta, case.noise is not None),
        )
        mask_bytes = 0 if hidden == 1 else (hidden + 7) // 8
        out = {"z": unwritten(edges, dtype=acc), "mask": torch.full((edges, mask_bytes), 255, dtype=torch.uint8)}
        if case.penalty:
            out |= {"penalty": unwritten(dtype=acc), "logit": unwritten(edges, dtype=acc)}
        kept = [at(out.get(name)) for name in ("z", "penalty", "mask", "logit")]
        if mask_bytes == 0:
            kept[2] = None
        given = [at(x) for x in (case.c, case.edge_bias, case.noise, case.edge_ids)]
        self.launch(EdgeGateForward(inputs, *given, *kept), shape)
        if case.grad_z is None and case.grad_penalty is None:
            return out

        grads = {
            "grad_p": unwritten(*case.p.shape, dtype=case.p.dtype),
            "grad_q": unwritten(*case.q.shape, dtype=case.p.dtype),
            "grad_w": unwritten(hidden, dtype=acc),
            "grad_c": unwritten(dtype=acc),
            "grad_bias": unwritten(edges, dtype=acc),
        }
        arrived = [at(x) for x in (case.grad_z, case.grad_penalty)]
        self.launch(EdgeGateBackward(inputs, kept[0], kept[2], kept[3], *arrived, *map(at, grads.values())), shape)
        return out | grads

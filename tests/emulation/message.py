"""The emulated kernels of message passing, called with tensors."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from .library import (
    DTYPES,
    EdgeSide,
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


class AggregateForward(ctypes.Structure):
    _fields_ = fields(side=EdgeSide, dtype=integer, heads__feats=long, h=pointer, h_stride=long, z__out=pointer)


class AggregateBackward(ctypes.Structure):
    _fields_ = fields(
        side=EdgeSide,
        dtype=integer,
        heads__feats=long,
        h__grad=pointer,
        h_stride__grad_stride=long,
        z__arg__grad_h__grad_z=pointer,
    )


class MaximumForward(ctypes.Structure):
    _fields_ = fields(side=EdgeSide, dtype=integer, feats=long, h=pointer, h_stride=long, z__out__arg=pointer)


class SegmentSum(ctypes.Structure):
    _fields_ = fields(side=EdgeSide, acc=integer, heads=long, x__out=pointer)


class SegmentSpread(ctypes.Structure):
    _fields_ = SegmentSum._fields_


class Normalize(ctypes.Structure):
    _fields_ = fields(side=EdgeSide, acc=integer, heads=long, left__right__floor=double, z__out_deg__in_deg__w=pointer)


class NormalizeBackward(ctypes.Structure):
    _fields_ = fields(inputs=Normalize, grad__out_sum__in_sum__grad_z=pointer)


class AttentionInputs(ctypes.Structure):
    _fields_ = [
        *fields(into__out=EdgeSide, dtype=integer, heads__feats=long, h=pointer, h_stride=long),
        *fields(el__er__scores__z=pointer, z_heads=long, negative_slope=double),
    ]


class AttentionForward(ctypes.Structure):
    _fields_ = fields(inputs=AttentionInputs, result__max__sum__weights=pointer)


class AttentionBackward(ctypes.Structure):
    _fields_ = fields(
        inputs=AttentionInputs,
        grad=pointer,
        grad_stride=long,
        result__max__sum__grad_weights__shift__grad_h__grad_el__grad_scores__grad_z__records=pointer,
    )


class EdgeScoresInputs(ctypes.Structure):
    _fields_ = fields(
        into__out=EdgeSide,
        dtype=integer,
        heads__feats=long,
        p__q=pointer,
        p_stride__q_stride=long,
        w=pointer,
        negative_slope=double,
    )


class EdgeScoresForward(ctypes.Structure):
    _fields_ = fields(inputs=EdgeScoresInputs, scores=pointer)


class EdgeScoresBackward(ctypes.Structure):
    _fields_ = fields(inputs=EdgeScoresInputs, grad__grad_p__grad_q__grad_w=pointer)


POWERS = {"both": (0.5, 0.5), "left": (1.0, 0.0), "right": (0.0, 1.0), "cube": (1 / 3, 0.25)}
OPERATORS = ("aggregate", "maximum", "degrees", "attention", "attention of scores", "scores")


@dataclass
class MessageCase:
    """Inputs of all the operators on a graph, and gradients that arrive at their outputs."""

    src: Tensor
    dst: Tensor
    h: Tensor  # [num_src, heads, F]
    q: Tensor  # [num_dst, heads, F]
    z: Tensor | None  # [E] or [E, heads]
    el: Tensor  # [num_src, heads]
    er: Tensor  # [num_dst, heads]
    scores: Tensor  # [E, heads]
    w: Tensor  # [heads, F]
    grad: Tensor  # [num_dst, heads, F]
    grad_edges: Tensor  # [E, heads]
    norm: str = "both"
    floor: float = 1.0
    negative_slope: float = 0.2
    operators: tuple[str, ...] = OPERATORS

    @property
    def wide_z(self) -> Tensor | None:
        """z by head, as aggregate has it."""
        heads = self.h.shape[1]
        if self.z is None or self.z.dim() == 2:
            return self.z
        return self.z[:, None].expand(-1, heads).contiguous()

    @property
    def flat_z(self) -> Tensor | None:
        """z for maximum, which has no heads."""
        return self.z if self.z is None or self.z.dim() == 1 else self.z[:, 0].contiguous()


class MessageKernels(Library):
    """A library that build.py made of the part "message"."""

    def __init__(self, library: Path) -> None:
        super().__init__(
            library,
            *(AggregateForward, AggregateBackward, MaximumForward, SegmentSum, SegmentSpread, Normalize),
            *(NormalizeBackward, AttentionForward, AttentionBackward, EdgeScoresForward, EdgeScoresBackward),
        )

    def __call__(
        self, case: MessageCase, shape: LaunchShape | None = None, seed: int = 0, resident: int = 1
    ) -> dict[str, Tensor]:
        """Every operator's outputs and gradients. All that is not written stays NaN."""
        self.set_schedule(seed, resident)
        found: dict[str, Tensor] = {}
        for operator in case.operators:
            results = _Call(self, case, shape or LaunchShape()).run(operator)
            found |= {f"{operator}: {name}": x for name, x in results.items()}
        return found


class _Call:
    def __init__(self, library: Library, case: MessageCase, shape: LaunchShape) -> None:
        self.library, self.case, self.shape = library, case, shape
        self.num_src, self.heads, self.feats = case.h.shape
        self.num_dst, self.edges = len(case.q), len(case.src)
        self.dtype, self.acc = case.h.dtype, acc_dtype(case.h.dtype)
        self.kept = edge_index(case.src, case.dst, self.num_src, self.num_dst)  # what pointers lead into
        in_ptr, in_src, _, in_edge, out_ptr, _, out_dst, out_edge = map(at, self.kept)
        self.into = EdgeSide(in_ptr, in_src, in_edge, self.num_dst, self.num_src, self.edges)
        self.out = EdgeSide(out_ptr, out_dst, out_edge, self.num_src, self.num_dst, self.edges)

    def launch(self, kind: type[ctypes.Structure], *values: object) -> None:
        self.library.launch(kind(*values), self.shape)

    def unwritten(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        return unwritten(*size, dtype=dtype or self.acc)

    def run(self, operator: str) -> dict[str, Tensor]:
        return getattr(self, operator.split()[0])(operator.endswith("of scores"))

    def aggregate(self, _: bool) -> dict[str, Tensor]:
        case, z = self.case, self.case.wide_z
        heads, feats = self.heads, self.feats
        rows = self.unwritten(self.num_dst, heads, feats, dtype=self.dtype)
        grad_h, alone = (self.unwritten(self.num_src, heads, feats, dtype=self.dtype) for _ in range(2))
        kind = DTYPES[self.dtype]
        self.launch(AggregateForward, self.into, kind, heads, feats, at(case.h), case.h.stride(0), at(z), at(rows))
        given = (self.out, kind, heads, feats, at(case.h), at(case.grad), case.h.stride(0), case.grad.stride(0))
        self.launch(AggregateBackward, *given, at(z), None, at(alone), None)
        found = {"out": rows, "grad_h alone": alone}
        if z is not None:
            found |= {"grad_h": grad_h, "grad_z": self.unwritten(self.edges, heads)}
            self.launch(AggregateBackward, *given, at(z), None, at(grad_h), at(found["grad_z"]))
        return found

    def maximum(self, _: bool) -> dict[str, Tensor]:
        case, z, width = self.case, self.case.flat_z, self.heads * self.feats
        rows, arg = (self.unwritten(self.num_dst, width, dtype=x) for x in (self.dtype, torch.int32))
        kind = DTYPES[self.dtype]
        self.launch(MaximumForward, self.into, kind, width, at(case.h), case.h.stride(0), at(z), at(rows), at(arg))
        found = {"out": rows, "arg": arg, "grad_h": self.unwritten(self.num_src, width, dtype=self.dtype)}
        if z is not None:
            found["grad_z"] = self.unwritten(self.edges)
        given = (self.out, kind, 1, width, at(case.h), at(case.grad), case.h.stride(0), case.grad.stride(0))
        self.launch(AggregateBackward, *given, at(z), at(arg), at(found["grad_h"]), at(found.get("grad_z")))
        return found

    def sums(self, side: EdgeSide, x: Tensor) -> Tensor:
        out = self.unwritten(side.rows, x.shape[1])
        self.launch(SegmentSum, side, DTYPES[self.acc], x.shape[1], at(x), at(out))
        return out

    def degrees(self, _: bool) -> dict[str, Tensor]:
        case, heads = self.case, self.heads
        z = case.grad_edges.abs() if case.wide_z is None else case.wide_z
        left, right = POWERS[case.norm]
        found = {"out_deg": self.sums(self.out, z), "in_deg": self.sums(self.into, z)}
        found |= {name: self.unwritten(self.edges, heads) for name in ("w", "grad_z", "spread")}
        degrees = [at(found["out_deg"]) if left else None, at(found["in_deg"]) if right else None]
        inputs = self.into, DTYPES[self.acc], heads, left, right, case.floor, at(z), *degrees, at(found["w"])
        self.launch(Normalize, *inputs)
        product = case.grad_edges * found["w"]
        out_sum, in_sum = self.sums(self.out, product), self.sums(self.into, product)
        sums = [at(out_sum) if left else None, at(in_sum) if right else None]
        self.launch(NormalizeBackward, Normalize(*inputs), at(case.grad_edges), *sums, at(found["grad_z"]))
        self.launch(SegmentSpread, self.out, DTYPES[self.acc], heads, at(case.el), at(found["spread"]))
        return found

    def attention(self, of_scores: bool) -> dict[str, Tensor]:
        case, heads, feats = self.case, self.heads, self.feats
        el, er, scores = (None, None, case.scores) if of_scores else (case.el, case.er, None)
        z_heads = 1 if case.z is None or case.z.dim() == 1 else heads
        inputs = AttentionInputs(
            *(self.into, self.out, DTYPES[self.dtype], heads, feats, at(case.h), case.h.stride(0)),
            *(at(el), at(er), at(scores), at(case.z), z_heads, case.negative_slope),
        )
        found = {
            "out": self.unwritten(self.num_dst, heads, feats, dtype=self.dtype),
            "max": self.unwritten(self.num_dst, heads),
            "sum": self.unwritten(self.num_dst, heads),
            "weights": self.unwritten(self.edges, heads),
        }
        self.launch(AttentionForward, inputs, *map(at, found.values()))
        grads = {
            "grad_h": self.unwritten(self.num_src, heads, feats, dtype=self.dtype),
            "grad_el": self.unwritten(self.num_src, heads),
            "grad_scores": self.unwritten(self.edges, heads),
        }
        if case.z is not None:
            grads["grad_z"] = self.unwritten(*case.z.shape)
        grad_weights = shift = None
        if of_scores:
            del grads["grad_el"]
            grad_weights = case.grad_edges
            shift = self.sums(self.into, found["weights"] * grad_weights)
        records = self.unwritten(self.num_dst, 4, heads)
        self.launch(
            AttentionBackward,
            *(inputs, at(case.grad), case.grad.stride(0)),
            *(at(found[name]) for name in ("out", "max", "sum")),
            *map(at, (grad_weights, shift)),
            *(at(grads.get(name)) for name in ("grad_h", "grad_el", "grad_scores", "grad_z")),
            at(records),
        )
        if not of_scores:
            grads["grad_er"] = self.sums(self.into, grads.pop("grad_scores"))
        return found | grads

    def scores(self, _: bool) -> dict[str, Tensor]:
        case, heads, feats = self.case, self.heads, self.feats
        inputs = EdgeScoresInputs(
            *(self.into, self.out, DTYPES[self.dtype], heads, feats, at(case.h), at(case.q)),
            *(case.h.stride(0), case.q.stride(0), at(case.w), case.negative_slope),
        )
        found = {
            "scores": self.unwritten(self.edges, heads),
            "grad_p": self.unwritten(self.num_src, heads, feats, dtype=self.dtype),
            "grad_q": self.unwritten(self.num_dst, heads, feats, dtype=self.dtype),
            "grad_w": self.unwritten(heads, feats),
        }
        self.launch(EdgeScoresForward, inputs, at(found["scores"]))
        grads = (at(found[name]) for name in ("grad_p", "grad_q", "grad_w"))
        self.launch(EdgeScoresBackward, inputs, at(case.grad_edges), *grads)
        return found

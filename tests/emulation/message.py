"""The emulated kernels of message passing, called with tensors."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .kernels import DTYPES, Shape, _at, _fields

_pointer, _long, _int, _double = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_double


class Side(ctypes.Structure):
    _fields_ = _fields(ptr__node__edge=_pointer, rows__others__edges=_long)


class AggregateArgs(ctypes.Structure):
    _fields_ = _fields(side=Side, dtype=_int, heads__feats=_long, h=_pointer, h_stride=_long, z__out=_pointer)


class AggregateBackwardArgs(ctypes.Structure):
    _fields_ = _fields(
        side=Side,
        dtype=_int,
        heads__feats=_long,
        h__grad=_pointer,
        h_stride__grad_stride=_long,
        z__arg__grad_h__grad_z=_pointer,
    )


class MaximumArgs(ctypes.Structure):
    _fields_ = _fields(side=Side, dtype=_int, feats=_long, h=_pointer, h_stride=_long, z__out__arg=_pointer)


class SegmentArgs(ctypes.Structure):
    _fields_ = _fields(side=Side, heads=_long, x__out=_pointer)


class NormalizeArgs(ctypes.Structure):
    _fields_ = _fields(side=Side, heads=_long, left__right__floor=_double, z__out_deg__in_deg__w=_pointer)


class NormalizeBackwardArgs(ctypes.Structure):
    _fields_ = _fields(inputs=NormalizeArgs, grad__out_sum__in_sum__grad_z=_pointer)


class AttentionInputs(ctypes.Structure):
    _fields_ = [
        *_fields(into__out=Side, dtype=_int, heads__feats=_long, h=_pointer, h_stride=_long),
        *_fields(el__er__scores__z=_pointer, z_heads=_long, negative_slope=_double),
    ]


class AttentionArgs(ctypes.Structure):
    _fields_ = _fields(inputs=AttentionInputs, result__max__sum__weights=_pointer)


class AttentionBackwardArgs(ctypes.Structure):
    _fields_ = _fields(
        inputs=AttentionInputs,
        grad=_pointer,
        grad_stride=_long,
        result__max__sum__grad_weights__shift__grad_h__grad_el__grad_scores__grad_z__records=_pointer,
    )


class ScoresInputs(ctypes.Structure):
    _fields_ = _fields(
        into__out=Side,
        dtype=_int,
        heads__feats=_long,
        p__q=_pointer,
        p_stride__q_stride=_long,
        w=_pointer,
        negative_slope=_double,
    )


class ScoresArgs(ctypes.Structure):
    _fields_ = _fields(inputs=ScoresInputs, scores=_pointer)


class ScoresBackwardArgs(ctypes.Structure):
    _fields_ = _fields(inputs=ScoresInputs, grad__grad_p__grad_q__grad_w=_pointer)


STRUCTS = {
    "aggregate": AggregateArgs,
    "aggregate_backward": AggregateBackwardArgs,
    "maximum": MaximumArgs,
    "segment_sum": SegmentArgs,
    "segment_spread": SegmentArgs,
    "normalize": NormalizeArgs,
    "normalize_backward": NormalizeBackwardArgs,
    "attention": AttentionArgs,
    "attention_backward": AttentionBackwardArgs,
    "edge_scores": ScoresArgs,
    "edge_scores_backward": ScoresBackwardArgs,
}
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


class MessageKernels:
    """A library that build.py made of the part "message"."""

    def __init__(self, library: Path) -> None:
        self.library = ctypes.CDLL(str(library))
        for name, kind in STRUCTS.items():
            getattr(self.library, f"emulated_{name}").restype = ctypes.c_char_p
            size = getattr(self.library, f"size_of_{name}")
            size.restype = ctypes.c_size_t
            if size() != ctypes.sizeof(kind):
                raise TypeError(f"{kind.__name__} does not match its C++ struct: bring it up to date")

    def __call__(
        self, case: MessageCase, shape: Shape | None = None, seed: int = 0, resident: int = 1
    ) -> dict[str, Tensor]:
        """Every operator's outputs and gradients. All that is not written stays NaN."""
        self.library.emulated_options(ctypes.c_uint64(seed), resident)
        found: dict[str, Tensor] = {}
        for operator in case.operators:
            results = _Call(self.library, case, shape or Shape()).run(operator)
            found |= {f"{operator}: {name}": x for name, x in results.items()}
        return found


class _Call:
    def __init__(self, library: Any, case: MessageCase, shape: Shape) -> None:
        self.library, self.case, self.shape = library, case, shape
        self.num_src, self.heads, self.feats = case.h.shape
        self.num_dst, self.edges = len(case.q), len(case.src)
        self.dtype = case.h.dtype
        self.acc = torch.float64 if self.dtype == torch.float64 else torch.float32
        self.kept: list[Tensor] = []  # what pointers lead into
        self.into = self.side(case.dst, case.src, self.num_dst, self.num_src)
        self.out = self.side(case.src, case.dst, self.num_src, self.num_dst)

    def side(self, rows: Tensor, others: Tensor, count: int, other_count: int) -> Side:
        edge = torch.argsort(rows, stable=True)
        ptr = torch.cat([torch.zeros(1, dtype=torch.long), torch.bincount(rows, minlength=count).cumsum(0)])
        tensors = [x.int().contiguous() for x in (ptr, others[edge], edge)]
        self.kept += tensors
        return Side(*map(_at, tensors), count, other_count, self.edges)

    def launch(self, name: str, *values: object) -> None:
        args = STRUCTS[name](*values)
        extra = [DTYPES[self.acc]] if name.startswith(("segment", "normalize")) else []
        problem = getattr(self.library, f"emulated_{name}")(ctypes.byref(args), ctypes.byref(self.shape), *extra)
        if problem is not None:
            raise RuntimeError(problem.decode())

    def unwritten(self, *size: int, dtype: torch.dtype | None = None) -> Tensor:
        dtype = dtype or self.acc
        return torch.full(size, float("nan") if dtype.is_floating_point else -7, dtype=dtype)

    def run(self, operator: str) -> dict[str, Tensor]:
        return getattr(self, operator.split()[0])(operator.endswith("of scores"))

    def aggregate(self, _: bool) -> dict[str, Tensor]:
        case, z = self.case, self.case.wide_z
        heads, feats = self.heads, self.feats
        rows = self.unwritten(self.num_dst, heads, feats, dtype=self.dtype)
        grad_h, alone = (self.unwritten(self.num_src, heads, feats, dtype=self.dtype) for _ in range(2))
        kind = DTYPES[self.dtype]
        self.launch("aggregate", self.into, kind, heads, feats, _at(case.h), case.h.stride(0), _at(z), _at(rows))
        given = (self.out, kind, heads, feats, _at(case.h), _at(case.grad), case.h.stride(0), case.grad.stride(0))
        self.launch("aggregate_backward", *given, _at(z), None, _at(alone), None)
        found = {"out": rows, "grad_h alone": alone}
        if z is not None:
            found |= {"grad_h": grad_h, "grad_z": self.unwritten(self.edges, heads)}
            self.launch("aggregate_backward", *given, _at(z), None, _at(grad_h), _at(found["grad_z"]))
        return found

    def maximum(self, _: bool) -> dict[str, Tensor]:
        case, z, width = self.case, self.case.flat_z, self.heads * self.feats
        rows, arg = (self.unwritten(self.num_dst, width, dtype=x) for x in (self.dtype, torch.int32))
        kind = DTYPES[self.dtype]
        self.launch("maximum", self.into, kind, width, _at(case.h), case.h.stride(0), _at(z), _at(rows), _at(arg))
        found = {"out": rows, "arg": arg, "grad_h": self.unwritten(self.num_src, width, dtype=self.dtype)}
        if z is not None:
            found["grad_z"] = self.unwritten(self.edges)
        given = (self.out, kind, 1, width, _at(case.h), _at(case.grad), case.h.stride(0), case.grad.stride(0))
        self.launch("aggregate_backward", *given, _at(z), _at(arg), _at(found["grad_h"]), _at(found.get("grad_z")))
        return found

    def sums(self, side: Side, x: Tensor) -> Tensor:
        out = self.unwritten(side.rows, x.shape[1])
        self.launch("segment_sum", side, x.shape[1], _at(x), _at(out))
        return out

    def degrees(self, _: bool) -> dict[str, Tensor]:
        case, heads = self.case, self.heads
        z = case.grad_edges.abs() if case.wide_z is None else case.wide_z
        left, right = POWERS[case.norm]
        found = {"out_deg": self.sums(self.out, z), "in_deg": self.sums(self.into, z)}
        found |= {name: self.unwritten(self.edges, heads) for name in ("w", "grad_z", "spread")}
        degrees = [_at(found["out_deg"]) if left else None, _at(found["in_deg"]) if right else None]
        inputs = self.into, heads, left, right, case.floor, _at(z), *degrees, _at(found["w"])
        self.launch("normalize", *inputs)
        product = case.grad_edges * found["w"]
        out_sum, in_sum = self.sums(self.out, product), self.sums(self.into, product)
        sums = [_at(out_sum) if left else None, _at(in_sum) if right else None]
        self.launch("normalize_backward", NormalizeArgs(*inputs), _at(case.grad_edges), *sums, _at(found["grad_z"]))
        self.launch("segment_spread", self.out, heads, _at(case.el), _at(found["spread"]))
        return found

    def attention(self, of_scores: bool) -> dict[str, Tensor]:
        case, heads, feats = self.case, self.heads, self.feats
        el, er, scores = (None, None, case.scores) if of_scores else (case.el, case.er, None)
        z_heads = 1 if case.z is None or case.z.dim() == 1 else heads
        inputs = AttentionInputs(
            *(self.into, self.out, DTYPES[self.dtype], heads, feats, _at(case.h), case.h.stride(0)),
            *(_at(el), _at(er), _at(scores), _at(case.z), z_heads, case.negative_slope),
        )
        found = {
            "out": self.unwritten(self.num_dst, heads, feats, dtype=self.dtype),
            "max": self.unwritten(self.num_dst, heads),
            "sum": self.unwritten(self.num_dst, heads),
            "weights": self.unwritten(self.edges, heads),
        }
        self.launch("attention", inputs, *map(_at, found.values()))
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
            "attention_backward",
            *(inputs, _at(case.grad), case.grad.stride(0)),
            *(_at(found[name]) for name in ("out", "max", "sum")),
            *map(_at, (grad_weights, shift)),
            *(_at(grads.get(name)) for name in ("grad_h", "grad_el", "grad_scores", "grad_z")),
            _at(records),
        )
        if not of_scores:
            grads["grad_er"] = self.sums(self.into, grads.pop("grad_scores"))
        return found | grads

    def scores(self, _: bool) -> dict[str, Tensor]:
        case, heads, feats = self.case, self.heads, self.feats
        inputs = ScoresInputs(
            *(self.into, self.out, DTYPES[self.dtype], heads, feats, _at(case.h), _at(case.q)),
            *(case.h.stride(0), case.q.stride(0), _at(case.w), case.negative_slope),
        )
        found = {
            "scores": self.unwritten(self.edges, heads),
            "grad_p": self.unwritten(self.num_src, heads, feats, dtype=self.dtype),
            "grad_q": self.unwritten(self.num_dst, heads, feats, dtype=self.dtype),
            "grad_w": self.unwritten(heads, feats),
        }
        self.launch("edge_scores", inputs, _at(found["scores"]))
        grads = (_at(found[name]) for name in ("grad_p", "grad_q", "grad_w"))
        self.launch("edge_scores_backward", inputs, _at(case.grad_edges), *grads)
        return found

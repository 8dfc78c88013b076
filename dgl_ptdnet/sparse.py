"""Feature matrices of mostly zeros, which layers take for dense ones; and a fast dropout."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .ops import EdgeIndex, aggregate, degrees


class SparseRows:
    """A constant matrix [N, F] of mostly zeros that layers take for dense features.

    Linear maps, dropout and layer norm (without weights) touch only what is not zero; every other function gets the
    dense matrix. A bag of words is a graph with edges from words to nodes, so a linear map is the gated sum that the
    layers use, with its gradient.
    """

    requires_grad, _version = False, 0  # as those of a tensor that never changes

    def __init__(self, dense: Tensor) -> None:
        rows, columns = dense.nonzero(as_tuple=True)
        self.shape, self.places = dense.shape, (rows, columns)
        self.index = EdgeIndex(columns, rows, dense.shape[1], dense.shape[0])
        self.values = dense[self.places]

    def with_values(self, values: Tensor) -> SparseRows:
        """The matrix with other numbers at the same places."""
        other = copy.copy(self)
        other.values = values
        return other

    def to(self, like: Tensor) -> SparseRows:
        """The matrix with the device and dtype of a tensor."""
        same = self.values.device == like.device and self.values.dtype == like.dtype
        return self if same else SparseRows(self.dense().to(like))

    def is_inference(self) -> bool:
        return self.values.is_inference()

    def dense(self) -> Tensor:
        return self.values.new_zeros(self.shape).index_put(self.places, self.values)

    def normalized(self, eps: float = 1e-5) -> SparseRows:
        """Each row with mean 0 and variance 1, as ``layer_norm`` without weights. The zeros stay implicit."""
        feats, rows = self.shape[1], self.places[0]
        mean = degrees(self.index, self.values) / feats
        centred = (self.values - mean[rows]).square()
        zeros = feats - degrees(self.index, torch.ones_like(self.values))
        variance = (degrees(self.index, centred) + zeros * mean.square()) / feats
        return _Normalized(self, mean, torch.rsqrt(variance + eps))

    def __len__(self) -> int:
        return self.shape[0]

    def dim(self) -> int:
        return 2

    def __matmul__(self, weight: Tensor) -> Tensor:
        return aggregate(self.index, weight.contiguous(), self.values)

    def __getattr__(self, name: str) -> Any:
        if name == "values" or name.startswith("__"):  # the object is being copied, or asked whether it can be
            raise AttributeError(name)
        like_values = name in ("dtype", "device") or name.startswith("new_")
        return getattr(self.values if like_values else self.dense(), name)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        first = args[0] if args else None
        if isinstance(first, SparseRows):
            if func is functional.linear:
                return _linear(*args, **kwargs)
            if func is functional.dropout and type(first) is SparseRows:
                return first.with_values(dropout(first.values, kwargs["p"], kwargs["training"]))
            if func is functional.layer_norm and kwargs.get("weight") is None and kwargs.get("bias") is None:
                return first.normalized(kwargs.get("eps", 1e-5))
        args = [x.dense() if isinstance(x, SparseRows) else x for x in args]
        return func(*args, **{k: x.dense() if isinstance(x, SparseRows) else x for k, x in kwargs.items()})


class _Normalized(SparseRows):
    """``(sparse - mean) * scale`` with a mean and a scale for each row."""

    def __init__(self, sparse: SparseRows, mean: Tensor, scale: Tensor) -> None:
        self.__dict__.update(sparse.__dict__)
        self.mean, self.scale = mean[:, None], scale[:, None]

    def dense(self) -> Tensor:
        return (super().dense() - self.mean) * self.scale

    def normalized(self, eps: float = 1e-5) -> SparseRows:
        raise TypeError("the rows are normalized already")

    def __matmul__(self, weight: Tensor) -> Tensor:
        return (super().__matmul__(weight) - self.mean * weight.sum(0)) * self.scale


def _linear(rows: SparseRows, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    out = rows @ weight.t()
    return out if bias is None else out + bias.to(out.dtype)


def sparse_if_faster(dense: Tensor) -> Tensor | SparseRows:
    """The matrix as SparseRows if fewer than one number in six is not zero, else the matrix itself."""
    return SparseRows(dense) if 6 * int(torch.count_nonzero(dense)) < dense.numel() else dense


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Any:
    """Dropout as torch's. On the CPU four numbers share a draw, which is four times as fast, and p is rounded to
    1/65536."""
    if type(x) is SparseRows:
        return x.with_values(dropout(x.values, p, training))
    minimum = round(p * 65536)
    if not training or minimum in (0, 65536) or isinstance(x, SparseRows) or x.device.type != "cpu":
        return functional.dropout(x, p, training)
    draws = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    stays = draws.view(torch.int16)[: x.numel()].view(x.shape) >= minimum - 32768
    return x * stays.to(x.dtype).mul_(65536 / (65536 - minimum))

"""Several linear maps of one matrix of features, with results in memory that is reused from step to step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from . import _library

_ops = torch.ops.dgl_ptdnet


def linear_maps(x: Tensor, maps: Sequence[tuple[Tensor, Tensor | None]]) -> list[Tensor]:
    """``x @ weight.T + bias`` for each pair of ``maps``: a weight :math:`(S, F)`, and a bias :math:`(S,)` or None. The
    last dimension of ``x`` is F.

    Torch's own layers would allocate new memory for every result and for every layer's gradient of ``x``, and then add
    these gradients. For large graphs that takes longer than the matrix products.
    """
    if not isinstance(x, Tensor) and maps:  # a stand-in for a matrix, such as a sparse one: it has one product only
        sizes = [len(weight) for weight, _ in maps]
        biases = [weight.new_zeros(len(weight)) if bias is None else bias for weight, bias in maps]
        out = functional.linear(x, torch.cat([weight for weight, _ in maps]), torch.cat(biases))
        return list(out.split(sizes, -1))
    if x.dim() < 2:
        raise ValueError(f"features must be [N, F]; got shape {tuple(x.shape)}")
    rows, tensors = x.flatten(0, -2), [t for pair in maps for t in pair]
    rows, *tensors = _library.as_autocast(rows, *tensors)
    made = list(_Linear.apply(rows, *tensors)) if maps else []
    return made if x.dim() == 2 else [y.unflatten(0, x.shape[:-1]) for y in made]


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *maps: Tensor) -> tuple[Tensor, ...]:
        weights, biases = maps[::2], maps[1::2]
        ctx.save_for_backward(x, *weights)
        return tuple(_ops.linear(x, weights, biases))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, *weights = ctx.saved_tensors
        need_x, *need = ctx.needs_input_grad
        grad_x, grad_weights = _ops.linear_backward(grads, x, weights, need_x, any(need[::2]))
        grad_weights = grad_weights or [None] * len(weights)
        grad_biases = [grad.sum(0) if needs else None for grad, needs in zip(grads, need[1::2])]
        return (grad_x if need_x else None, *(t for pair in zip(grad_weights, grad_biases) for t in pair))


@_library.register_fake("linear")
def _(x: Tensor, weights: list[Tensor], biases: list[Tensor | None]) -> list[Tensor]:
    made = []
    for weight in weights:
        size = weight.shape[0]
        rest = 0 if len(weights) == 1 or size < 16 else -size % 16
        made.append(x.new_empty((x.shape[0], size + rest))[:, :size])
    return made


@_library.register_fake("linear_backward")
def _(grads: list[Tensor], x: Tensor, weights: list[Tensor], need_x: bool, need_weights: bool) -> Any:
    return x.new_empty(x.shape if need_x else (0,)), [w.new_empty(w.shape) for w in weights if need_weights]

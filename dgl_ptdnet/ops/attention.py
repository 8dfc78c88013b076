"""Gated attention over a graph's edges: public functions, fakes, gradients. The kernels are in ``csrc/``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _library
from .aggregate import acc_dtype, as_gates, flat_rows
from .index import EdgeIndex

_ops = torch.ops.dgl_ptdnet


def attention(
    index: EdgeIndex,
    h: Tensor,
    el: Tensor,
    er: Tensor,
    z: Tensor | None = None,
    negative_slope: float = 0.2,
    *,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""GAT's scores, the gated softmax over each node's edges, and the sum, in one operator.

    .. math::
        a_e &= \mathrm{LeakyReLU}(el_u + er_v), \qquad e = (u, v) \\
        \mathrm{out}_v &= \sum_e z_e \exp(a_e) \, h_u \, / \sum_e z_e \exp(a_e)

    for every head. Stable for large scores; nothing of size :math:`E \times F` is ever made.

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    h : torch.Tensor
        Features of the sources, :math:`(N_{src}, heads, F)`: float32, float64, bfloat16 or float16.
    el : torch.Tensor
        The sources' share of the scores, :math:`(N_{src}, heads)`.
    er : torch.Tensor
        The destinations' share, :math:`(N_{dst}, heads)`.
    z : torch.Tensor, optional
        Gates, not negative, in the order of ``src`` and ``dst``, :math:`(E,)` or :math:`(E, heads)`. An edge whose
        gate is 0 takes no part. Without them every gate is 1.
    negative_slope : float
        Of the LeakyReLU, not negative. Default: 0.2.
    return_weights : bool
        Whether to return the attention weights, too. Default: False.

    Returns
    -------
    torch.Tensor or (torch.Tensor, torch.Tensor)
        :math:`(N_{dst}, heads, F)`, zeros for a node with no kept edge; and the weights
        :math:`z_e \exp(a_e) / \sum z \exp(a)`, :math:`(E, heads)`, if they were asked for.

    Notes
    -----
    Gradients go to ``h``, ``el``, ``er`` and ``z``, also from the weights; there is no second derivative. An edge with
    :math:`z_e = 0` has a gradient for its gate; where its score is so far above the kept ones that this would
    overflow, it is cut. With features in half precision the rounded result enters the gradients of scores and gates.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> index = ptd.EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), num_src=3, num_dst=2)
    >>> h = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]], [[5.0, 6.0]]])
    >>> el, er = torch.tensor([[0.0], [0.0], [9.0]]), torch.zeros(2, 1)
    >>> out, weights = ptd.attention(index, h, el, er, torch.tensor([1.0, 1.0, 0.0]), return_weights=True)
    >>> out
    tensor([[[2., 3.]],
    <BLANKLINE>
            [[0., 0.]]])
    >>> weights.flatten()
    tensor([0.5000, 0.5000, 0.0000])
    """
    return _attend(index, h, el, er, None, z, negative_slope, return_weights)


def attention_v2(
    index: EdgeIndex,
    h: Tensor,
    p: Tensor,
    q: Tensor,
    w: Tensor,
    z: Tensor | None = None,
    negative_slope: float = 0.2,
    *,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    r"""As :func:`attention`, with GATv2's scores.

    .. math::
        a_e = \sum_k w_k \, \mathrm{LeakyReLU}(p_{uk} + q_{vk}), \qquad e = (u, v)

    Parameters
    ----------
    index, h
        As for :func:`attention`.
    p : torch.Tensor
        Projection of the sources, :math:`(N_{src}, heads, K)`: float32, float64, bfloat16 or float16. GATv2 uses ``h``.
    q : torch.Tensor
        Projection of the destinations, :math:`(N_{dst}, heads, K)`, of the same dtype.
    w : torch.Tensor
        Weights of the scores, :math:`(heads, K)`.
    z, negative_slope, return_weights
        As for :func:`attention`. Default: None, 0.2 and False.

    Returns
    -------
    torch.Tensor or (torch.Tensor, torch.Tensor)
        :math:`(N_{dst}, heads, F)`, and the attention weights :math:`(E, heads)` if they were asked for.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> index = ptd.EdgeIndex(torch.tensor([0, 1]), torch.tensor([0, 0]), num_src=2, num_dst=1)
    >>> p, q, w = torch.tensor([[[1.0, 2.0]], [[2.0, 1.0]]]), torch.zeros(1, 1, 2), torch.ones(1, 2)
    >>> ptd.attention_v2(index, p, p, q, w)
    tensor([[[1.5000, 1.5000]]])
    """
    (rows, _), (to, _) = flat_rows(index, p, "p"), flat_rows(index, q, "q")
    if p.dim() != 3 or q.dim() != 3 or w.dim() != 2 or p.shape[1:] != w.shape or q.shape[1:] != w.shape:
        raise ValueError(
            f"p must be [N_src, heads, K], q [N_dst, heads, K] and w [heads, K]; got shapes {tuple(p.shape)}, "
            f"{tuple(q.shape)} and {tuple(w.shape)}"
        )
    scores = _ops.edge_scores(*index.sides, rows, to, as_gates("w", w, p), negative_slope)
    return _attend(index, h, None, None, scores.to(acc_dtype(h)), z, negative_slope, return_weights)


def edge_scores(index: EdgeIndex, p: Tensor, q: Tensor, w: Tensor) -> Tensor:
    """The logits of :func:`edge_gate` alone, sum_k w_k relu(p_uk + q_vk): [E], with gradients for p, q and w."""
    return _ops.edge_scores(*index.sides, p, q, as_gates("w", w, p)[None], 0.0).squeeze(1)  # type: ignore[index]


def _attend(
    index: EdgeIndex,
    h: Tensor,
    el: Tensor | None,
    er: Tensor | None,
    scores: Tensor | None,
    z: Tensor | None,
    negative_slope: float,
    return_weights: bool,
) -> Tensor | tuple[Tensor, Tensor]:
    if h.dim() != 3:
        raise ValueError(f"h must be [N_src, heads, F]; got shape {tuple(h.shape)}")
    rows, shape = flat_rows(index, h)
    el, er, z = (as_gates(name, x, h) for name, x in (("el", el), ("er", er), ("z", z)))
    out, _, _, weights = _ops.attention(
        *index.sides, rows, el, er, scores, z, negative_slope, h.shape[1], return_weights
    )
    out = out.reshape(shape)
    return (out, weights) if return_weights else out


@_library.register_fake("attention")
def _(in_ptr: Tensor, in_src: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    h, heads, weights = rest[4], rest[-2], rest[-1]
    nodes, acc = in_ptr.shape[0] - 1, acc_dtype(h)
    return (
        h.new_empty((nodes, h.shape[1])),
        h.new_empty((nodes, heads), dtype=acc),
        h.new_empty((nodes, heads), dtype=acc),
        h.new_empty((in_src.shape[0] if weights else 0, heads), dtype=acc),
    )


@_library.register_fake("attention_backward")
def _(grad: Tensor | None, grad_weights: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    h, el, er, scores, z = rest[6:11]
    heads, need_z = rest[-2:]

    def like(x: Tensor | None) -> Tensor:
        return h.new_empty((0, heads) if x is None else x.shape, dtype=acc_dtype(h))

    grad_z = h.new_empty(z.shape if need_z else (0,), dtype=acc_dtype(h))
    return h.new_empty(h.shape), like(el), like(er), like(scores), grad_z


def _attention_context(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.mark_non_differentiable(*output[1:3])
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:11], *output)
    ctx.settings, ctx.weighted = inputs[11:13], inputs[13]


def _attention_backward(ctx: Any, grad: Tensor | None, _: None, __: None, grad_weights: Tensor | None) -> tuple:
    grads: tuple = (None,) * 5
    grad_weights = grad_weights if ctx.weighted else None
    if grad is not None or grad_weights is not None:
        need = ctx.needs_input_grad[6:11]
        grads = _ops.attention_backward(grad, grad_weights, *ctx.saved_tensors, *ctx.settings, need[4])
        grads = tuple(x if needed else None for x, needed in zip(grads, need))
    return (*(None,) * 6, *grads, *(None,) * 3)


_library.register_autograd("attention", _attention_backward, _attention_context)
_library.refuse_autograd("attention_backward", "attention has no second derivative")


@_library.register_fake("edge_scores")
def _(in_ptr: Tensor, in_src: Tensor, *rest: Any) -> Tensor:
    w = rest[6]
    return w.new_empty((in_src.shape[0], w.shape[0]))


@_library.register_fake("edge_scores_backward")
def _(grad: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    return tuple(x.new_empty(x.shape) for x in rest[6:9])


def _edge_scores_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:9])
    ctx.negative_slope = inputs[9]


def _edge_scores_backward(ctx: Any, grad: Tensor) -> tuple:
    return (*(None,) * 6, *_ops.edge_scores_backward(grad, *ctx.saved_tensors, ctx.negative_slope), None)


_library.register_autograd("edge_scores", _edge_scores_backward, _edge_scores_context)
_library.refuse_autograd("edge_scores_backward", "edge_scores has no second derivative")


@_library.register_autocast("attention")
def _(*args: Any) -> tuple[Any, ...]:
    index, h, numbers, settings = args[:6], args[6], args[7:11], args[11:]
    return (*index, h, *(None if x is None else x.to(acc_dtype(h)) for x in numbers), *settings)


@_library.register_autocast("edge_scores")
def _(*args: Any) -> tuple[Any, ...]:
    index, p, q, w, slope = args[:6], *args[6:]
    rows = torch.promote_types(p.dtype, q.dtype)
    return (*index, p.to(rows), q.to(rows), w.to(torch.float64 if rows == torch.float64 else torch.float32), slope)

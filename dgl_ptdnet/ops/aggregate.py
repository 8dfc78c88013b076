"""Gated sums, means and maxima over edges: public functions, fakes, gradients. The kernels are in ``csrc/``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _library
from .index import EdgeIndex

_ops = torch.ops.dgl_ptdnet
_NORMS = {"none": (0.0, 0.0), "both": (0.5, 0.5), "left": (1.0, 0.0), "right": (0.0, 1.0), "mean": (0.0, 1.0)}


def acc_dtype(rows: Tensor) -> torch.dtype:
    """The dtype of sums, gates and scores beside ``rows``."""
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


def as_gates(name: str, value: Tensor | None, rows: Tensor) -> Tensor | None:
    """``value`` in the dtype that goes with ``rows``; it may have that of the rows too."""
    acc = acc_dtype(rows)
    if value is not None and value.dtype not in (acc, rows.dtype):
        raise TypeError(f"{name} must be {acc} (or of the features' dtype, {rows.dtype}); got {value.dtype}")
    return None if value is None else value.to(acc)


def aggregate(
    index: EdgeIndex, h: Tensor, z: Tensor | None = None, *, norm: str = "none", floor: float = 1.0
) -> Tensor:
    r"""The sum of gated messages.

    .. math::
        \mathrm{out}_v = \sum_{e = (u, v)} z_e \, h_u

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    h : torch.Tensor
        Features of the sources, :math:`(N_{src}, F)` or :math:`(N_{src}, heads, F)`: float32, float64, bfloat16 or
        float16. Rows may have a stride.
    z : torch.Tensor, optional
        Gates in the order of ``src`` and ``dst``, :math:`(E,)`, or :math:`(E, heads)` for a gate to each head.
        Without them every gate is 1.
    norm : str
        ``"none"``, or how the gates are normalised first: see :func:`normalize`. ``"mean"`` is the mean over kept
        edges. Default: ``"none"``.
    floor : float
        The least degree that counts in the normalisation. Default: 1.0.

    Returns
    -------
    torch.Tensor
        :math:`(N_{dst}, F)` or :math:`(N_{dst}, heads, F)`, of the dtype of ``h``; sums are made in float32 or better.

    Notes
    -----
    Gradients go to ``h`` and ``z``, in one pass over the sources. Sums have a fixed order, so results have the same
    bits for any number of threads. There is no second derivative.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> index = ptd.EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0]), num_src=3, num_dst=2)
    >>> h = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> z = torch.tensor([1.0, 0.5, 0.0])
    >>> ptd.aggregate(index, h, z)
    tensor([[1.5000, 2.0000],
            [1.0000, 2.0000]])
    >>> ptd.aggregate(index, h, norm="mean")
    tensor([[4., 5.],
            [1., 2.]])
    """
    rows, shape = flat_rows(index, h)
    z = as_gates("z", z, h)
    if z is not None and (z.dim() not in (1, 2) or (z.dim() == 2 and (h.dim() != 3 or z.shape[1] != h.shape[1]))):
        raise ValueError(
            f"z must be [E], or [E, heads] where h is [N, heads, F]; got shape {tuple(z.shape)} for h of shape "
            f"{tuple(h.shape)}"
        )
    if norm != "none":
        z = normalize(index, rows.new_ones(index.num_edges, dtype=acc_dtype(h)) if z is None else z, norm, floor=floor)
    return _ops.aggregate(*index.sides, rows, z).reshape(shape)


def maximum(index: EdgeIndex, h: Tensor, z: Tensor | None = None) -> Tensor:
    r"""The maximum of gated messages over the edges that are kept.

    .. math::
        \mathrm{out}_v = \max_{e = (u, v),\ z_e > 0} z_e \, h_u

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    h : torch.Tensor
        Features of the sources, :math:`(N_{src}, F)` or :math:`(N_{src}, heads, F)`: float32, float64, bfloat16 or
        float16. Rows may have a stride.
    z : torch.Tensor, optional
        Gates in the order of ``src`` and ``dst``, :math:`(E,)`. Without them every gate is 1.

    Returns
    -------
    torch.Tensor
        :math:`(N_{dst}, F)` or :math:`(N_{dst}, heads, F)`; zeros for a node with no kept edge.

    Notes
    -----
    Gradients go to ``h`` and ``z``: those of a number to the one edge that it came over, the first of equal ones.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> index = ptd.EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), num_src=3, num_dst=2)
    >>> h = torch.tensor([[1.0, 2.0], [3.0, -4.0], [5.0, 6.0]])
    >>> ptd.maximum(index, h, torch.tensor([1.0, 0.5, 0.0]))
    tensor([[1.5000, 2.0000],
            [0.0000, 0.0000]])
    """
    rows, shape = flat_rows(index, h)
    return _ops.maximum(*index.sides, rows, as_gates("z", z, h))[0].reshape(shape)


def edge_dot(index: EdgeIndex, a: Tensor, b: Tensor) -> Tensor:
    r"""The inner product of the two ends of every edge, with no tensor of size :math:`E \times F`.

    .. math::
        d_e = \langle a_u, b_v \rangle, \qquad e = (u, v)

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    a : torch.Tensor
        Rows of the sources, :math:`(N_{src}, F)`: float32, float64, bfloat16 or float16. Rows may have a stride.
    b : torch.Tensor
        Rows of the destinations, :math:`(N_{dst}, F)`, of the same dtype.

    Returns
    -------
    torch.Tensor
        :math:`(E,)` in the order of ``src`` and ``dst``, float32 (float64 for float64 rows).

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> index = ptd.EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0]), num_src=3, num_dst=2)
    >>> ptd.edge_dot(index, torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.eye(2))
    tensor([2., 3., 5.])
    """
    return _ops.edge_dot(*index.sides, a, b)


def degrees(index: EdgeIndex, z: Tensor, by: str = "dst") -> Tensor:
    r"""The sum of the gates at every node.

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    z : torch.Tensor
        Gates in the order of ``src`` and ``dst``, :math:`(E,)` or :math:`(E, heads)`, float32 or float64.
    by : str
        ``"dst"``: of the edges that come in; ``"src"``: of those that go out. Default: ``"dst"``.

    Returns
    -------
    torch.Tensor
        :math:`(N_{dst},)` or :math:`(N_{src},)`, with ``heads`` if ``z`` has them.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> index = ptd.EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0]), num_src=3, num_dst=2)
    >>> ptd.degrees(index, torch.tensor([1.0, 0.5, 0.0]))
    tensor([0.5000, 1.0000])
    """
    if by not in ("dst", "src"):
        raise ValueError(f"by must be 'dst' or 'src'; got {by!r}")
    in_ptr, _, in_edge, out_ptr, _, out_edge = index.sides
    return _ops.segment_sum(in_ptr, in_edge, z) if by == "dst" else _ops.segment_sum(out_ptr, out_edge, z)


def normalize(index: EdgeIndex, z: Tensor, norm: str = "both", *, floor: float = 1.0) -> Tensor:
    r"""The gates divided by the gated degrees of their nodes.

    .. math::
        w_e = z_e \, / \, (d_u^{\,l} \, d_v^{\,r}), \qquad d = \max(\textstyle\sum z, \mathrm{floor})

    with :math:`d_u` over the edges that leave the source and :math:`d_v` over those that enter the destination.
    Folded into the gates, a normalisation costs no pass over features: ``aggregate(index, h, normalize(index, z))``.

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    z : torch.Tensor
        Gates in the order of ``src`` and ``dst``, :math:`(E,)` or :math:`(E, heads)`, float32 or float64.
    norm : str
        As in DGL's ``GraphConv``: ``"both"`` (:math:`l = r = 1/2`), ``"left"`` (:math:`l = 1, r = 0`: a node shares
        itself out), ``"right"`` or ``"mean"`` (:math:`l = 0, r = 1`: a mean over kept edges), ``"none"``.
        Default: ``"both"``.
    floor : float
        The least degree that counts. With 1, DGL's own rule for nodes without edges, messages fade out with the last
        gate of a node; 0 gives a true mean, whose gradient grows as 1 / degree, and zeros where no edge is
        kept. Default: 1.0.

    Returns
    -------
    torch.Tensor
        Of the shape of ``z``, differentiable everywhere but where a degree crosses the floor.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> index = ptd.EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), num_src=3, num_dst=1)
    >>> ptd.normalize(index, torch.tensor([1.0, 1.0, 0.0]), "mean")
    tensor([0.5000, 0.5000, 0.0000])
    """
    if norm not in _NORMS:
        raise ValueError(f"norm must be one of {', '.join(map(repr, _NORMS))}; got {norm!r}")
    if norm == "none":
        return z
    return _ops.normalize(*index.sides, z, *_NORMS[norm], floor)[0]


def flat_rows(index: EdgeIndex, h: Tensor, name: str = "h") -> tuple[Tensor, tuple[int, ...]]:
    """``h`` as one row a node, and the shape of what is summed into destinations."""
    if h.dim() not in (2, 3) or 0 in h.shape[1:]:
        raise ValueError(f"{name} must be [N, F] or [N, heads, F] with F, heads >= 1; got shape {tuple(h.shape)}")
    return h.reshape(h.shape[0], h.shape[1:].numel()), (index.num_dst, *h.shape[1:])


@_library.register_fake("aggregate")
def _(in_ptr: Tensor, *rest: Any) -> Tensor:
    h = rest[5]
    return h.new_empty((in_ptr.shape[0] - 1, h.shape[1]))


def _fake_backward(h: Tensor, z: Tensor | None, need_h: bool, need_z: bool) -> tuple[Tensor, Tensor]:
    acc = acc_dtype(h)
    grad_z = h.new_empty(z.shape, dtype=acc) if need_z and z is not None else h.new_empty((0,), dtype=acc)
    return h.new_empty((h.shape[0] if need_h else 0, h.shape[1])), grad_z


@_library.register_fake("aggregate_backward")
def _(grad: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    return _fake_backward(*rest[3:])


def _aggregate_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
    *_, out_ptr, out_dst, out_edge, h, z = inputs
    ctx.save_for_backward(out_ptr, out_dst, out_edge, h, z)


def _aggregate_backward(ctx: Any, grad: Tensor) -> tuple:
    need = ctx.needs_input_grad[6:8]
    grad_h, grad_z = _ops.aggregate_backward(grad, *ctx.saved_tensors, *need)
    return (*(None,) * 6, grad_h if need[0] else None, grad_z if need[1] else None)


_library.register_autograd("aggregate", _aggregate_backward, _aggregate_context)
_library.refuse_autograd("aggregate_backward", "aggregate has no second derivative")


# The dot products are what the gates' gradient is made of, so its kernel serves.
@_library.register_kernel("edge_dot")
def _(
    in_ptr: Tensor,
    in_src: Tensor,
    in_edge: Tensor,
    out_ptr: Tensor,
    out_dst: Tensor,
    out_edge: Tensor,
    a: Tensor,
    b: Tensor,
) -> Tensor:
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"a must be [N_src, F] and b [N_dst, F]; got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    if b.shape[0] != in_ptr.shape[0] - 1:
        raise ValueError(f"b has {b.shape[0]} rows, but the index was made for {in_ptr.shape[0] - 1} destinations")
    unused = a.new_zeros(out_edge.shape, dtype=acc_dtype(a))
    return _ops.aggregate_backward(b, out_ptr, out_dst, out_edge, a, unused, False, True)[1]


@_library.register_fake("edge_dot")
def _(in_ptr: Tensor, in_src: Tensor, *rest: Any) -> Tensor:
    a = rest[4]
    return a.new_empty(in_src.shape, dtype=acc_dtype(a))


def _edge_dot_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _edge_dot_backward(ctx: Any, grad: Tensor) -> tuple:
    *sides, a, b = ctx.saved_tensors
    need_a, need_b = ctx.needs_input_grad[6:]
    grad_a = _ops.aggregate(*sides[3:], *sides[:3], b, grad) if need_a else None
    return (*(None,) * 6, grad_a, _ops.aggregate(*sides, a, grad) if need_b else None)


_library.register_autograd("edge_dot", _edge_dot_backward, _edge_dot_context)


@_library.register_fake("maximum")
def _(in_ptr: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    h = rest[5]
    shape = (in_ptr.shape[0] - 1, h.shape[1])
    return h.new_empty(shape), h.new_empty(shape, dtype=torch.int32)


@_library.register_fake("maximum_backward")
def _(grad: Tensor, *rest: Any) -> tuple[Tensor, Tensor]:
    _, _, _, h, z, _, need_h, need_z = rest
    return _fake_backward(h, z, need_h, need_z)


def _maximum_context(ctx: Any, inputs: tuple, output: tuple) -> None:
    *_, out_ptr, out_dst, out_edge, h, z = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(out_ptr, out_dst, out_edge, h, z, output[1])


def _maximum_backward(ctx: Any, grad: Tensor, _: None) -> tuple:
    need = ctx.needs_input_grad[6:8]
    grad_h, grad_z = _ops.maximum_backward(grad, *ctx.saved_tensors, *need)
    return (*(None,) * 6, grad_h if need[0] else None, grad_z if need[1] else None)


_library.register_autograd("maximum", _maximum_backward, _maximum_context)
_library.refuse_autograd("maximum_backward", "maximum has no second derivative")


@_library.register_fake("segment_sum")
def _(ptr: Tensor, edge: Tensor, x: Tensor) -> Tensor:
    return x.new_empty((ptr.shape[0] - 1, *x.shape[1:]))


@_library.register_fake("segment_spread")
def _(ptr: Tensor, edge: Tensor, x: Tensor) -> Tensor:
    return x.new_empty((edge.shape[0], *x.shape[1:]))


def _segment_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:2])


# Each is the other's transpose, so these two have derivatives of every order.
_library.register_autograd(
    "segment_sum", lambda ctx, grad: (None, None, _ops.segment_spread(*ctx.saved_tensors, grad)), _segment_context
)
_library.register_autograd(
    "segment_spread", lambda ctx, grad: (None, None, _ops.segment_sum(*ctx.saved_tensors, grad)), _segment_context
)


@_library.register_fake("normalize")
def _(in_ptr: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    out_ptr, z, left, right = rest[2], rest[5], rest[6], rest[7]
    heads = z.shape[1:]
    out_deg = z.new_empty((out_ptr.shape[0] - 1, *heads) if left != 0 else (0,))
    return z.new_empty(z.shape), out_deg, z.new_empty((in_ptr.shape[0] - 1, *heads) if right != 0 else (0,))


@_library.register_fake("normalize_backward")
def _(grad: Tensor, *rest: Any) -> Tensor:
    return grad.new_empty(grad.shape)


def _normalize_context(ctx: Any, inputs: tuple, output: tuple) -> None:
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*inputs[:6], *output)
    ctx.settings = inputs[7:]


def _normalize_backward(ctx: Any, grad: Tensor, *_: None) -> tuple:
    return (*(None,) * 6, _ops.normalize_backward(grad, *ctx.saved_tensors, *ctx.settings), None, None, None)


_library.register_autograd("normalize", _normalize_backward, _normalize_context)
_library.refuse_autograd("normalize_backward", "normalize has no second derivative")


def _autocast(*args: Any) -> tuple[Any, ...]:
    *index, h, z = args
    return (*index, h, None if z is None else z.to(acc_dtype(h)))


_library.register_autocast("aggregate")(_autocast)
_library.register_autocast("maximum")(_autocast)

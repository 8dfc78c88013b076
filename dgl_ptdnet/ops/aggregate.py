"""Gated sums, means and maxima over edges: public functions and fakes. Kernels and gradients are in ``csrc/``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _library
from .index import EdgeIndex, IndexTensors

_ops = torch.ops.dgl_ptdnet
_NORMS = {"none": (0.0, 0.0), "both": (0.5, 0.5), "left": (1.0, 0.0), "right": (0.0, 1.0), "mean": (0.0, 1.0)}


def acc_dtype(rows: Tensor) -> torch.dtype:
    """The dtype of the sums, gates and scores that go with ``rows``: float64 for float64 rows, else float32."""
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


def check_arguments(index: EdgeIndex, optional: dict[str, Any] | None = None, **tensors: Any) -> None:
    if not isinstance(index, EdgeIndex):
        raise TypeError(f"index must be a dgl_ptdnet.EdgeIndex; got {type(index).__name__}")
    _library.check_tensors(**tensors, **{name: x for name, x in (optional or {}).items() if x is not None})


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
        Gates in the order of ``src`` and ``dst``, :math:`(E,)`, or :math:`(E, heads)` for a gate of each head.
        Default: None, every gate is 1.
    norm : str
        How the gates are normalised first: see :func:`normalize`. ``"mean"`` is the mean over kept edges.
        Default: ``"none"``.
    floor : float
        Smaller gated degrees count as this in the normalisation. Default: 1.0, DGL's rule;
        :class:`dgl_ptdnet.Denoised` uses 0.0.

    Returns
    -------
    torch.Tensor
        :math:`(N_{dst}, F)` or :math:`(N_{dst}, heads, F)`, of the dtype of ``h``. Sums are made in float32, or in
        float64 for float64 features.

    Notes
    -----
    ``h`` and ``z`` get gradients, in one pass over the sources. Sums have a fixed order, so results have the same
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
    check_arguments(index, {"z": z}, h=h)
    if norm != "none":
        gates = h.new_ones(index.num_edges, dtype=acc_dtype(h)) if z is None else z.to(acc_dtype(h))
        z = normalize(index, gates, norm, floor=floor)
    return _ops.aggregate(index.tensors, h, z)


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
        Gates in the order of ``src`` and ``dst``, :math:`(E,)`. Default: None, every gate is 1.

    Returns
    -------
    torch.Tensor
        :math:`(N_{dst}, F)` or :math:`(N_{dst}, heads, F)`; zeros for a node with no kept edge.

    Notes
    -----
    ``h`` and ``z`` get gradients: each maximum passes its gradient to the edge that it came from; of equal ones to the
    first.

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
    check_arguments(index, {"z": z}, h=h)
    return _ops.maximum(index.tensors, h, z)[0]


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
    check_arguments(index, a=a, b=b)
    return _ops.edge_dot(index.tensors, a, b)


def degrees(index: EdgeIndex, z: Tensor, by: str = "dst") -> Tensor:
    r"""The sum of the gates at every node.

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    z : torch.Tensor
        Gates in the order of ``src`` and ``dst``, :math:`(E,)` or :math:`(E, heads)`, float32 or float64.
    by : str
        ``"dst"``: sum over the edges that enter a node; ``"src"``: over the edges that leave it. Default: ``"dst"``.

    Returns
    -------
    torch.Tensor
        :math:`(N_{dst},)` or :math:`(N_{src},)`; with heads :math:`(N_{dst}, heads)` or
        :math:`(N_{src}, heads)`.

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
    check_arguments(index, z=z)
    return _ops.segment_sum(index.tensors, z, by == "src")


def normalize(index: EdgeIndex, z: Tensor, norm: str = "both", *, floor: float = 1.0) -> Tensor:
    r"""The gates divided by the gated degrees of their nodes.

    .. math::
        w_e = z_e \, / \, (d_u^{\,l} \, d_v^{\,r}), \qquad d = \max(\textstyle\sum z, \mathrm{floor})

    where :math:`d_u` is the sum over the edges that leave the source, and :math:`d_v` over the edges that enter the
    destination. To normalise the gates needs no pass over features: ``aggregate(index, h, normalize(index, z))``.

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    z : torch.Tensor
        Gates in the order of ``src`` and ``dst``, :math:`(E,)` or :math:`(E, heads)`, float32 or float64.
    norm : str
        As in DGL's ``GraphConv``: ``"both"`` (:math:`l = r = 1/2`), ``"left"`` (:math:`l = 1, r = 0`: the weights
        of a source's edges sum to 1), ``"right"`` or ``"mean"`` (:math:`l = 0, r = 1`: the weights of a destination's
        edges sum to 1), ``"none"`` (:math:`l = r = 0`). Default: ``"both"``.
    floor : float
        Smaller gated degrees count as this. With 1.0 the messages of a node fade out as its last gate closes; 0.0 gives
        a true mean, whose gradient grows as 1 / degree, and zeros where no edge is kept. Default: 1.0, DGL's rule;
        :class:`dgl_ptdnet.Denoised` uses 0.0.

    Returns
    -------
    torch.Tensor
        The weights, of the shape of ``z``. They are differentiable except where a degree equals the floor.

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
    check_arguments(index, z=z)
    if norm == "none":
        return z
    left, right = _NORMS[norm]
    return _ops.normalize(index.tensors, z, left=left, right=right, floor=floor)[0]


@_library.register_fake("aggregate")
def _(index: list[Tensor], h: Tensor, z: Tensor | None, to_src: bool = False) -> Tensor:
    return h.new_empty((num_nodes(index, not to_src), *h.shape[1:]))


def num_nodes(index: list[Tensor], dst: bool) -> int:
    tensors = IndexTensors(*index)
    return (tensors.in_ptr if dst else tensors.out_ptr).shape[0] - 1


def _fake_gradients(h: Tensor, z: Tensor | None, need_h: bool, need_z: bool) -> tuple[Tensor, Tensor]:
    grad_z = h.new_empty(z.shape if need_z and z is not None else (0,), dtype=acc_dtype(h))
    return h.new_empty(h.shape if need_h else (0,)), grad_z


@_library.register_fake("aggregate_backward")
def _(
    grad: Tensor, index: list[Tensor], h: Tensor, z: Tensor | None, need_h: bool, need_z: bool, to_src: bool = False
) -> tuple[Tensor, Tensor]:
    return _fake_gradients(h, z, need_h, need_z)


@_library.register_fake("edge_dot")
def _(index: list[Tensor], a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(IndexTensors(*index).in_edge.shape, dtype=acc_dtype(a))


@_library.register_fake("maximum")
def _(index: list[Tensor], h: Tensor, z: Tensor | None) -> tuple[Tensor, Tensor]:
    out = h.new_empty((num_nodes(index, True), *h.shape[1:]))
    return out, out.new_empty(out.shape, dtype=torch.int32)


@_library.register_fake("maximum_backward")
def _(
    grad: Tensor, index: list[Tensor], h: Tensor, z: Tensor | None, arg: Tensor, need_h: bool, need_z: bool
) -> tuple[Tensor, Tensor]:
    return _fake_gradients(h, z, need_h, need_z)


@_library.register_fake("segment_sum")
def _(index: list[Tensor], x: Tensor, by_src: bool) -> Tensor:
    return x.new_empty((num_nodes(index, not by_src), *x.shape[1:]))


@_library.register_fake("segment_spread")
def _(index: list[Tensor], x: Tensor, by_src: bool) -> Tensor:
    return x.new_empty((IndexTensors(*index).in_edge.shape[0], *x.shape[1:]))


@_library.register_fake("normalize")
def _(index: list[Tensor], z: Tensor, *, left: float, right: float, floor: float) -> tuple[Tensor, ...]:
    def degrees_of(dst: bool, power: float) -> Tensor:
        return z.new_empty((num_nodes(index, dst), *z.shape[1:]) if power != 0 else (0,))

    return z.new_empty(z.shape), degrees_of(False, left), degrees_of(True, right)


@_library.register_fake("normalize_backward")
def _(
    grad: Tensor,
    index: list[Tensor],
    w: Tensor,
    out_deg: Tensor,
    in_deg: Tensor,
    *,
    left: float,
    right: float,
    floor: float,
) -> Tensor:
    return grad.new_empty(grad.shape)

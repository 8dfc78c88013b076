"""Gated attention over a graph's edges: public functions and fakes. Kernels and gradients are in ``csrc/``."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _library
from .aggregate import acc_dtype, check_arguments, num_nodes
from .index import EdgeIndex, IndexTensors

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
    r"""GAT's attention with gates: scores, softmax over each node's edges and weighted sum in one operator.

    .. math::
        a_e &= \mathrm{LeakyReLU}(el_u + er_v), \qquad e = (u, v) \\
        \mathrm{out}_v &= \sum_e z_e \exp(a_e) \, h_u \, / \sum_e z_e \exp(a_e)

    for every head. Large scores do not overflow, and no tensor of size :math:`E \times F` is made.

    Parameters
    ----------
    index : EdgeIndex
        The edges.
    h : torch.Tensor
        Features of the sources, :math:`(N_{src}, heads, F)`: float32, float64, bfloat16 or float16.
    el : torch.Tensor
        What the sources add to the scores, :math:`(N_{src}, heads)`.
    er : torch.Tensor
        What the destinations add to the scores, :math:`(N_{dst}, heads)`.
    z : torch.Tensor, optional
        Gates, not negative, in the order of ``src`` and ``dst``, :math:`(E,)` or :math:`(E, heads)`. An edge whose
        gate is 0 takes no part. Default: None, every gate is 1.
    negative_slope : float
        Slope of the LeakyReLU below 0; not negative. Default: 0.2.
    return_weights : bool
        Whether to return the attention weights, too. Default: False.

    Returns
    -------
    torch.Tensor or (torch.Tensor, torch.Tensor)
        :math:`(N_{dst}, heads, F)`, zeros for a node with no kept edge; and the weights
        :math:`z_e \exp(a_e) / \sum z \exp(a)`, :math:`(E, heads)`, if they were asked for.

    Notes
    -----
    ``h``, ``el``, ``er`` and ``z`` get gradients, also from the weights; there is no second derivative. The gate of an
    edge with :math:`z_e = 0` has a gradient, too; it is limited where the edge's score is so far above the scores of
    the kept edges that it would overflow. With features in half precision, the gradients of scores and gates are made
    from the rounded result.

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
    check_arguments(index, h=h, el=el, er=er)
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
    check_arguments(index, h=h, p=p, q=q, w=w)
    if p.dim() != 3:
        raise ValueError(f"p must be [N_src, heads, K]; got shape {tuple(p.shape)}")
    scores = _ops.edge_scores(index.tensors, p, q, w, negative_slope=negative_slope)
    return _attend(index, h, None, None, scores.to(acc_dtype(h)), z, negative_slope, return_weights)


def edge_scores(index: EdgeIndex, p: Tensor, q: Tensor, w: Tensor) -> Tensor:
    """The logits of :func:`edge_gate` alone, sum_k w_k relu(p_uk + q_vk): [E], with gradients for p, q and w."""
    check_arguments(index, p=p, q=q, w=w)
    return _ops.edge_scores(index.tensors, p, q, w, negative_slope=0.0)


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
    check_arguments(index, {"z": z}, h=h)
    out, _, _, weights = _ops.attention(
        index.tensors, h, el, er, scores, z, negative_slope=negative_slope, weights=return_weights
    )
    return (out, weights) if return_weights else out


@_library.register_fake("attention")
def _(
    index: list[Tensor],
    h: Tensor,
    el: Tensor | None,
    er: Tensor | None,
    scores: Tensor | None,
    z: Tensor | None,
    *,
    negative_slope: float,
    weights: bool,
) -> tuple[Tensor, ...]:
    nodes, edges, heads, acc = num_nodes(index, True), IndexTensors(*index).in_edge.shape[0], h.shape[1], acc_dtype(h)
    return (
        h.new_empty((nodes, *h.shape[1:])),
        h.new_empty((nodes, heads), dtype=acc),
        h.new_empty((nodes, heads), dtype=acc),
        h.new_empty((edges if weights else 0, heads), dtype=acc),
    )


@_library.register_fake("attention_backward")
def _(
    grad: Tensor | None,
    grad_weights: Tensor | None,
    index: list[Tensor],
    h: Tensor,
    el: Tensor | None,
    er: Tensor | None,
    scores: Tensor | None,
    z: Tensor | None,
    out: Tensor,
    max: Tensor,
    sum: Tensor,
    weights: Tensor,
    *,
    negative_slope: float,
    need_z: bool,
) -> tuple[Tensor, ...]:
    def like(x: Tensor | None) -> Tensor:
        return h.new_empty((0, h.shape[1]) if x is None else x.shape, dtype=acc_dtype(h))

    grad_z = h.new_empty(z.shape if need_z and z is not None else (0,), dtype=acc_dtype(h))
    return h.new_empty(h.shape), like(el), like(er), like(scores), grad_z


@_library.register_fake("edge_scores")
def _(index: list[Tensor], p: Tensor, q: Tensor, w: Tensor, *, negative_slope: float) -> Tensor:
    edges = IndexTensors(*index).in_edge.shape[0]
    return p.new_empty((edges, w.shape[0]) if w.dim() == 2 else (edges,), dtype=acc_dtype(p))


@_library.register_fake("edge_scores_backward")
def _(
    grad: Tensor, index: list[Tensor], p: Tensor, q: Tensor, w: Tensor, *, negative_slope: float
) -> tuple[Tensor, ...]:
    return p.new_empty(p.shape), q.new_empty(q.shape), p.new_empty(w.shape, dtype=acc_dtype(p))

"""The fused edge gate: its public function and fakes. Kernels and gradient are in ``csrc/``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _library
from .aggregate import acc_dtype
from .index import EdgeIndex, IndexTensors

_ops = torch.ops.dgl_ptdnet
_SLOPES = {"relu": 0.0, "leaky_relu": 0.01, "identity": 1.0}


def edge_gate(
    src: Tensor,
    dst: Tensor,
    p: Tensor,
    q: Tensor,
    w: Tensor,
    c: Tensor,
    *,
    edge_bias: Tensor | None = None,
    activation: str = "relu",
    tau: float = 1.0,
    gamma: float = -0.1,
    zeta: float = 1.1,
    noise: Tensor | None = None,
    edge_ids: Tensor | None = None,
    index: EdgeIndex | None = None,
    penalty: bool = False,
) -> Any:
    r"""The gate of every edge, from logit to clipped sample in one operator.

    .. math::
        l_e &= \sum_k w_k \, \mathrm{act}(p_{uk} + q_{vk}) + b_e + c, \qquad e = (u, v) \\
        s_e &= \sigma((\log \epsilon_e - \log(1 - \epsilon_e) + l_e) / \tau)
               \text{ with noise, } \sigma(l_e) \text{ without} \\
        z_e &= \min(1, \max(0, s_e (\zeta - \gamma) + \gamma))

    With :math:`P = W_s h + b` and :math:`Q = W_d h` the logit is a two-layer MLP on :math:`[h_u, h_v]`. Its first
    layer is applied to nodes instead of edges, so no tensor of size :math:`E \times H` is made.

    Parameters
    ----------
    src, dst : torch.Tensor
        The edges, :math:`(E,)`, int32 or int64.
    p : torch.Tensor
        Projection of the sources, :math:`(N_{src}, H)`: float32, float64, bfloat16 or float16. Rows may have a
        stride: ``p`` and ``q`` can be the two halves of one projection.
    q : torch.Tensor
        Projection of the destinations, :math:`(N_{dst}, H)`, of the same dtype.
    w : torch.Tensor
        Weights of the second layer, :math:`(H,)`.
    c : torch.Tensor
        Bias of the second layer, one number.
    edge_bias : torch.Tensor, optional
        A number for every edge, :math:`(E,)`, added to its logit. Default: None, nothing is added.
    activation : str
        ``"relu"``, ``"leaky_relu"`` (slope 0.01) or ``"identity"``. Default: ``"relu"``.
    tau : float
        Temperature of the samples, positive. Default: 1.0.
    gamma, zeta : float
        The samples are stretched to :math:`(\gamma, \zeta)` and clipped to [0, 1]; gamma < 0 and zeta > 1.
        Default: -0.1 and 1.1.
    noise : torch.Tensor, optional
        ``(seed, offset)``, int64 :math:`(2,)`: sample the gates. Default: None, the gates are deterministic.
    edge_ids : torch.Tensor, optional
        The number that an edge's noise is drawn from, int64 :math:`(E,)`. Edges with the same id have the same draw;
        with ``dgl.EID`` an edge has the same draw in every mini-batch. Default: None, the ids are 0 .. E-1.
    index : EdgeIndex, optional
        The index of ``src`` and ``dst``. Default: None, each call makes one.
    penalty : bool
        Whether to return the penalty, too: the expected number of open gates. Default: False.

    Returns
    -------
    torch.Tensor or (torch.Tensor, torch.Tensor)
        The gates :math:`(E,)`, float32 (float64 for float64 input), and the penalty, the expected number
        of open gates, a scalar, if it was asked for.

    Notes
    -----
    ``p``, ``q``, ``w``, ``c`` and ``edge_bias`` get gradients. Sums have a fixed order, so results have the same bits
    for any number of threads. There is no second derivative.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> src, dst = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 2, 0])
    >>> p, q, w, c = torch.eye(3), torch.eye(3), torch.tensor([1.0, -2.0, 0.0]), torch.tensor(0.25)
    >>> ptd.edge_gate(src, dst, p, q, w, c)
    tensor([0.2850, 0.8328, 0.0777, 0.8328])
    >>> noise = torch.tensor([7, 0])  # seed, offset
    >>> z, penalty = ptd.edge_gate(src, dst, p, q, w, c, noise=noise, penalty=True)
    >>> z.shape, penalty.shape
    (torch.Size([4]), torch.Size([]))
    """
    if activation not in _SLOPES:
        raise ValueError(f"activation must be one of {', '.join(map(repr, _SLOPES))}; got {activation!r}")
    optional = {"edge_bias": edge_bias, "noise": noise, "edge_ids": edge_ids}
    _library.check_tensors(
        src=src, dst=dst, p=p, q=q, w=w, c=c, **{name: x for name, x in optional.items() if x is not None}
    )
    if index is None:
        index = EdgeIndex(src, dst, *(len(rows) if rows.dim() else 0 for rows in (p, q)))
    else:
        index.check(src, dst)
    z, expected_open, _, _ = _ops.edge_gate(
        index.tensors,
        *(p, q, w, c, edge_bias, noise, edge_ids),
        negative_slope=_SLOPES[activation],
        tau=tau,
        gamma=gamma,
        zeta=zeta,
        penalty=penalty,
        save=torch.is_grad_enabled() and any(x.requires_grad for x in (p, q, w, c, edge_bias) if x is not None),
    )
    return (z, expected_open) if penalty else z


@_library.register_fake("edge_gate")
def _(
    index: list[Tensor],
    p: Tensor,
    q: Tensor,
    w: Tensor,
    c: Tensor,
    edge_bias: Tensor | None,
    noise: Tensor | None,
    edge_ids: Tensor | None,
    *,
    negative_slope: float,
    tau: float,
    gamma: float,
    zeta: float,
    penalty: bool,
    save: bool,
) -> tuple[Tensor, ...]:
    edges, hidden, acc = IndexTensors(*index).in_edge.shape[0], p.shape[1], acc_dtype(p)
    mask_bytes = 0 if hidden == 1 else (hidden + 7) // 8
    return (
        p.new_empty((edges,), dtype=acc),
        p.new_empty(() if penalty else (0,), dtype=acc),
        p.new_empty((edges if save else 0, mask_bytes), dtype=torch.uint8),
        p.new_empty((edges if save and penalty else 0,), dtype=acc),
    )


@_library.register_fake("edge_gate_backward")
def _(
    grad_z: Tensor | None,
    grad_penalty: Tensor | None,
    index: list[Tensor],
    p: Tensor,
    q: Tensor,
    w: Tensor,
    z: Tensor,
    mask: Tensor,
    logit: Tensor,
    *,
    negative_slope: float,
    tau: float,
    gamma: float,
    zeta: float,
    noisy: bool,
    bias: bool,
) -> tuple[Tensor, ...]:
    def like(x: Tensor | tuple[int, ...]) -> Tensor:
        return p.new_empty(x.shape if isinstance(x, Tensor) else x, dtype=acc_dtype(p))

    return p.new_empty(p.shape), q.new_empty(q.shape), like(w), like(()), like((z.shape[0] if bias else 0,))

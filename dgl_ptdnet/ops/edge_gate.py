"""The fused edge gate: its public function, its fake, its gradient. The kernels are in ``csrc/``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import _library
from .aggregate import acc_dtype
from .index import EdgeIndex

_ops = torch.ops.dgl_ptdnet
_SLOPES = {"relu": 0.0, "leaky_relu": 0.01, "identity": 1.0}


def _check_tensors(p: Tensor, **others: Tensor | None) -> None:
    for name, value in {"p": p, **others}.items():
        if name in ("edge_bias", "noise", "edge_ids") and value is None:
            continue
        if not isinstance(value, Tensor):
            raise TypeError(f"{name} must be a torch.Tensor; got {type(value).__name__}")
        if value.device != p.device:
            raise ValueError(f"{name} must be on one device with p, {p.device}; got {value.device}. Move it with .to()")


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
    r"""The gate of every edge: its logit, sample and clipped gate in one operator.

    .. math::
        l_e &= \sum_k w_k \, \mathrm{act}(p_{uk} + q_{vk}) + b_e + c, \qquad e = (u, v) \\
        s_e &= \sigma((\log \epsilon_e - \log(1 - \epsilon_e) + l_e) / \tau)
               \text{ with noise, } \sigma(l_e) \text{ without} \\
        z_e &= \min(1, \max(0, s_e (\zeta - \gamma) + \gamma))

    With :math:`P = W_s h + b` and :math:`Q = W_d h` the logit is a two-layer MLP on :math:`[h_u, h_v]`, its first
    layer applied to nodes instead of edges: no tensor of size :math:`E \times H` is ever made.

    Parameters
    ----------
    src, dst : torch.Tensor
        The edges, :math:`(E,)`, int32 or int64.
    p : torch.Tensor
        Projection of the sources, :math:`(N_{src}, H)`: float32, float64, bfloat16 or float16. Rows may have a
        stride, so that ``p`` and ``q`` can be the halves of one projection.
    q : torch.Tensor
        Projection of the destinations, :math:`(N_{dst}, H)`, of the same dtype.
    w : torch.Tensor
        Weights of the second layer, :math:`(H,)`.
    c : torch.Tensor
        Its bias, one number.
    edge_bias : torch.Tensor, optional
        A number for every edge, :math:`(E,)`, added to its logit.
    activation : str
        ``"relu"``, ``"leaky_relu"`` (slope 0.01) or ``"identity"``. Default: ``"relu"``.
    tau : float
        Temperature of the samples, positive. Default: 1.0.
    gamma, zeta : float
        The samples are stretched to :math:`(\gamma, \zeta)` and clipped to [0, 1]; gamma < 0 and zeta > 1.
        Default: -0.1 and 1.1.
    noise : torch.Tensor, optional
        ``(seed, offset)``, int64 :math:`(2,)`: sample the gates. Without it they are deterministic.
    edge_ids : torch.Tensor, optional
        The number that keys each edge's noise, int64 :math:`(E,)`. Default: 0 .. E-1. Edges with the same id have
        the same draw; with ``dgl.EID`` an edge keeps its draw in every mini-batch.
    index : EdgeIndex, optional
        The graph's index. Without it each call makes one.
    penalty : bool
        Whether to return the expected number of edges that are kept, too. Default: False.

    Returns
    -------
    torch.Tensor or (torch.Tensor, torch.Tensor)
        The gates :math:`(E,)`, float32 (float64 for float64 input), and the penalty, a scalar, if it was asked for.

    Notes
    -----
    Gradients go to ``p``, ``q``, ``w``, ``c`` and ``edge_bias``; they are summed in a fixed order, so results have
    the same bits for any number of threads. There is no second derivative.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> src, dst = torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 2, 0])
    >>> p, q, w, c = torch.eye(3), torch.eye(3), torch.tensor([1.0, -2.0, 0.0]), torch.tensor(0.25)
    >>> ptd.edge_gate(src, dst, p, q, w, c)
    tensor([0.2850, 0.8328, 0.0777, 0.8328])
    >>> noise = torch.tensor([7, 0])  # seed, offset
    >>> z, kept = ptd.edge_gate(src, dst, p, q, w, c, noise=noise, penalty=True)
    >>> z.shape, kept.shape
    (torch.Size([4]), torch.Size([]))
    """
    if activation not in _SLOPES:
        raise ValueError(f"activation must be one of {', '.join(map(repr, _SLOPES))}; got {activation!r}")
    _check_tensors(p, src=src, dst=dst, q=q, w=w, c=c, edge_bias=edge_bias, noise=noise, edge_ids=edge_ids)
    for name, rows in (("p", p), ("q", q)):
        if rows.dim() != 2 or rows.shape[1] < 1:
            raise ValueError(f"{name} must be [N, H] with H >= 1; got shape {tuple(rows.shape)}")
    if index is None:
        index = EdgeIndex(src, dst, p.shape[0], q.shape[0])
    else:
        index.check(src, dst)
    acc = acc_dtype(p)
    for name, value in (("w", w), ("c", c), ("edge_bias", edge_bias)):
        if value is not None and value.dtype not in (acc, p.dtype):
            raise TypeError(f"{name} must be {acc} (or of p's dtype, {p.dtype}); got {value.dtype}")
    w, c = w.to(acc), c.to(acc)
    edge_bias = None if edge_bias is None else edge_bias.to(acc)
    if activation == "identity" and p.shape[1] > 1:  # separable: the sums over H belong to nodes
        if p.dtype != q.dtype or p.shape[1] != q.shape[1] or w.shape != p.shape[1:]:
            raise ValueError(
                f"p [N_src, H], q [N_dst, H] and w [H] must agree in H, p and q in dtype; got {tuple(p.shape)} "
                f"{p.dtype}, {tuple(q.shape)} {q.dtype} and {tuple(w.shape)}"
            )
        p, q, w = p.to(acc) @ w[:, None], q.to(acc) @ w[:, None], w.new_ones(1)
    learns = (x.requires_grad for x in (p, q, w, c, edge_bias) if x is not None)
    save = torch.is_grad_enabled() and any(learns)
    z, kept, _, _ = _ops.edge_gate(
        *index.tensors,
        *(p, q, w, c, edge_bias, noise, edge_ids),
        *(_SLOPES[activation], tau, gamma, zeta, penalty, save),
    )
    return (z, kept) if penalty else z


@_library.register_fake("edge_gate")
def _(
    in_ptr: Tensor,
    in_src: Tensor,
    in_dst: Tensor,
    in_edge: Tensor,
    out_ptr: Tensor,
    out_pos: Tensor,
    p: Tensor,
    q: Tensor,
    w: Tensor,
    c: Tensor,
    edge_bias: Tensor | None,
    noise: Tensor | None,
    edge_ids: Tensor | None,
    negative_slope: float,
    tau: float,
    gamma: float,
    zeta: float,
    penalty: bool,
    save: bool,
) -> tuple[Tensor, ...]:
    edges, hidden = in_src.shape[0], p.shape[1]
    mask_bytes = 0 if hidden == 1 else (hidden + 7) // 8
    return (
        w.new_empty((edges,)),
        w.new_empty(() if penalty else (0,)),
        w.new_empty((edges if save else 0, mask_bytes), dtype=torch.uint8),
        w.new_empty((edges if save and penalty else 0,)),
    )


@_library.register_fake("edge_gate_backward")
def _(grad_z: Tensor | None, grad_penalty: Tensor | None, *rest: Any) -> tuple[Tensor, ...]:
    p, q, w, z, bias = rest[6], rest[7], rest[8], rest[9], rest[-1]
    return (
        p.new_empty(p.shape),
        q.new_empty(q.shape),
        w.new_empty(w.shape),
        w.new_empty(()),
        w.new_empty((z.shape[0] if bias else 0,)),
    )


def _edge_gate_context(ctx: Any, inputs: tuple, output: tuple) -> None:
    index, (p, q, w, c, edge_bias, noise, _) = inputs[:6], inputs[6:13]
    z, _, mask, logit = output
    ctx.mark_non_differentiable(mask, logit)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*index, p, q, w, z, mask, logit)
    ctx.settings = (*inputs[13:17], noise is not None, edge_bias is not None and edge_bias.requires_grad)
    ctx.c_shape = c.shape
    ctx.penalty, ctx.saved = inputs[17:]


def _edge_gate_backward(ctx: Any, grad_z: Tensor | None, grad_penalty: Tensor | None, *_: None) -> tuple:
    if not ctx.saved:
        raise RuntimeError("edge_gate kept nothing for a backward: call it with save=True")
    grads: tuple = (None,) * 5
    if not ctx.penalty:
        grad_penalty = None
    if grad_z is not None or grad_penalty is not None:
        grads = _ops.edge_gate_backward(grad_z, grad_penalty, *ctx.saved_tensors, *ctx.settings)
    p, q, w, c, edge_bias = grads
    if not ctx.settings[-1]:
        edge_bias = None
    return (*(None,) * 6, p, q, w, None if c is None else c.reshape(ctx.c_shape), edge_bias, *(None,) * 8)


_library.register_autograd("edge_gate", _edge_gate_backward, _edge_gate_context)
_library.refuse_autograd(
    "edge_gate_backward", "edge_gate has no second derivative: its gradient is that of a clipped gate"
)


@_library.register_autocast("edge_gate")
def _(*args: Any) -> tuple[Any, ...]:
    index, (p, q, *rest), options = args[:6], args[6:11], args[11:]
    rows = torch.promote_types(p.dtype, q.dtype)
    acc = torch.float64 if rows == torch.float64 else torch.float32
    return (*index, p.to(rows), q.to(rows), *(None if x is None else x.to(acc) for x in rest), *options)

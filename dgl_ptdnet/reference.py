"""The operators in plain torch: slow and readable. The tests compare the kernels with these functions.

Every function takes the arguments of its twin in :mod:`dgl_ptdnet` and computes in the dtype of its input. In float64
it is the specification.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

_LOW = 0xFFFFFFFF


def philox_bits(edge_ids: Tensor, noise: Tensor) -> Tensor:
    """The 32 random bits of every edge, int64 [E]: Philox4x32-10 keyed by ``noise = (seed, offset)``."""
    seed, offset = (int(x) % 2**64 for x in noise)
    counter = (edge_ids >> 2) & 0x3FFFFFFFFFFFFFFF  # a logical shift
    c = [
        counter & _LOW,
        counter >> 32,
        torch.full_like(counter, offset & _LOW),
        torch.full_like(counter, offset >> 32),
    ]
    keys = [seed & _LOW, seed >> 32]

    def multiply(x: Tensor, factor: int) -> tuple[Tensor, Tensor]:  # a 64-bit product, in 16-bit halves
        low, high = x * (factor & 0xFFFF), x * (factor >> 16)
        middle = (low >> 16) + (high & 0xFFFF)
        return (high >> 16) + (middle >> 16), (middle << 16 | low & 0xFFFF) & _LOW

    for _ in range(10):
        (high0, low0), (high1, low1) = multiply(c[0], 0xD2511F53), multiply(c[2], 0xCD9E8D57)
        c = [high1 ^ c[1] ^ keys[0], low1, high0 ^ c[3] ^ keys[1], low0]
        keys = [(keys[0] + 0x9E3779B9) & _LOW, (keys[1] + 0xBB67AE85) & _LOW]
    return torch.stack(c).gather(0, (edge_ids & 3)[None])[0]


def _activate(x: Tensor, activation: str) -> Tensor:
    if activation == "relu":
        return torch.relu(x)
    return torch.nn.functional.leaky_relu(x, 0.01) if activation == "leaky_relu" else x


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
    index: object = None,
    penalty: bool = False,
) -> Any:
    """The twin of :func:`dgl_ptdnet.edge_gate`; it makes tensors of size E x H and ignores ``index``."""
    logit = (_activate(p[src.long()] + q[dst.long()], activation) * w).sum(1) + c
    if edge_bias is not None:
        logit = logit + edge_bias
    if noise is None:
        s = torch.sigmoid(logit)
    else:
        if edge_ids is None:
            edge_ids = torch.arange(len(src), device=src.device)
        eps = ((philox_bits(edge_ids, noise) >> 9).to(logit.dtype) + 0.5) * 2.0**-23
        s = torch.sigmoid((torch.log(eps) - torch.log(1 - eps) + logit) / tau)
    z = torch.clamp(s * (zeta - gamma) + gamma, 0, 1)
    return (z, torch.sigmoid(logit - tau * math.log(-gamma / zeta)).sum()) if penalty else z


def _gather(index: Any, h: Tensor) -> Tensor:
    return h[index.src.long()]


def _sum_by_dst(index: Any, messages: Tensor) -> Tensor:
    out = messages.new_zeros((index.num_dst, *messages.shape[1:]))
    return out.index_add(0, index.dst.long(), messages)


def _gates(index: Any, z: Tensor | None, like: Tensor, dims: int) -> Tensor:
    """z, or ones, in the dtype of ``like`` and with ``dims`` dimensions, to multiply messages of E x ... numbers."""
    if z is None:
        z = like.new_ones(len(index.src))
    return z.to(like.dtype).reshape(*z.shape, *(1,) * (dims - z.dim()))


def aggregate(index: Any, h: Tensor, z: Tensor | None = None, *, norm: str = "none", floor: float = 1.0) -> Tensor:
    """The twin of :func:`dgl_ptdnet.aggregate`; it makes a tensor of size E x F."""
    if norm != "none":
        z = normalize(index, _gates(index, z, h, 1 if z is None else z.dim()), norm, floor=floor)
    return _sum_by_dst(index, _gates(index, z, h, h.dim()) * _gather(index, h))


def edge_dot(index: Any, a: Tensor, b: Tensor) -> Tensor:
    """The twin of :func:`dgl_ptdnet.edge_dot`; it makes tensors of size E x F."""
    return (_gather(index, a) * b[index.dst.long()]).sum(1)


def common_neighbours(index: Any, u: Tensor, v: Tensor, weight: Tensor | None = None) -> Tensor:
    """The twin of :func:`dgl_ptdnet.ops.common_neighbours`; it makes a tensor of size N x N."""
    weight = torch.ones(len(index.src)) if weight is None else weight
    joined = torch.zeros(index.num_dst, index.num_src, dtype=torch.float64)
    joined.index_put_((index.dst.long(), index.src.long()), weight.double(), accumulate=True)
    return (joined[u] * joined[v]).sum(1)


def maximum(index: Any, h: Tensor, z: Tensor | None = None) -> Tensor:
    """The twin of :func:`dgl_ptdnet.maximum`; it makes tensors of size E x F."""
    messages = (_gates(index, z, h, h.dim()) * _gather(index, h)).flatten(1)
    kept = torch.ones_like(index.src, dtype=torch.bool) if z is None else z > 0
    out = messages.new_zeros((index.num_dst, messages.shape[1]))
    rows = index.dst.long()[kept][:, None].expand(-1, messages.shape[1])
    best = out.scatter_reduce(0, rows, messages.detach()[kept], "amax", include_self=False)
    # The gradient goes to the message of the first edge that has the maximum.
    edges = torch.arange(len(index.src), device=h.device)[kept][:, None].expand_as(rows)
    won = messages.detach()[kept] == best[index.dst.long()[kept]]
    first = torch.full_like(out, len(index.src), dtype=torch.long)
    first = first.scatter_reduce(0, rows, torch.where(won, edges, len(index.src)), "amin")
    padded = torch.cat([messages, messages.new_zeros((1, messages.shape[1]))])
    return padded.gather(0, first).reshape(index.num_dst, *h.shape[1:])


def degrees(index: Any, z: Tensor, by: str = "dst") -> Tensor:
    """The twin of :func:`dgl_ptdnet.degrees`."""
    nodes, count = (index.dst, index.num_dst) if by == "dst" else (index.src, index.num_src)
    return z.new_zeros((count, *z.shape[1:])).index_add(0, nodes.long(), z)


def normalize(index: Any, z: Tensor, norm: str = "both", *, floor: float = 1.0) -> Tensor:
    """The twin of :func:`dgl_ptdnet.normalize`."""

    def scale(by: str, power: float) -> Tensor:
        degree = degrees(index, z, by).clamp(min=floor)
        nodes = index.src if by == "src" else index.dst
        return torch.where(degree == 0, 0, torch.where(degree == 0, 1, degree) ** -power)[nodes.long()]

    if norm == "both":
        return z * scale("src", 0.5) * scale("dst", 0.5)
    return z * scale("src", 1) if norm == "left" else z * scale("dst", 1) if norm in ("right", "mean") else z


def _attend(
    index: Any, h: Tensor, scores: Tensor, z: Tensor | None, return_weights: bool
) -> Tensor | tuple[Tensor, Tensor]:
    gates = _gates(index, z, scores, 2).expand_as(scores)
    kept = torch.where(gates != 0, scores.detach(), -math.inf)
    rows = index.dst.long()[:, None].expand_as(scores)
    highest = scores.new_full((index.num_dst, scores.shape[1]), -math.inf).scatter_reduce(0, rows, kept, "amax")
    highest = torch.where(highest == -math.inf, 0, highest)
    # The score of an edge that is not kept may be far above the kept edges' scores; its exponential must stay finite.
    weights = gates * torch.exp((scores - highest[index.dst.long()]).clamp(max=69))
    total = _sum_by_dst(index, weights)
    weights = weights / torch.where(total == 0, 1, total)[index.dst.long()]
    weights = torch.where((total == 0)[index.dst.long()], weights * 0, weights)
    out = _sum_by_dst(index, weights[..., None] * _gather(index, h))
    return (out, weights) if return_weights else out


def attention(
    index: Any,
    h: Tensor,
    el: Tensor,
    er: Tensor,
    z: Tensor | None = None,
    negative_slope: float = 0.2,
    *,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The twin of :func:`dgl_ptdnet.attention`; it makes a tensor of size E x F."""
    scores = torch.nn.functional.leaky_relu(_gather(index, el) + er[index.dst.long()], negative_slope)
    return _attend(index, h, scores, z, return_weights)


def attention_v2(
    index: Any,
    h: Tensor,
    p: Tensor,
    q: Tensor,
    w: Tensor,
    z: Tensor | None = None,
    negative_slope: float = 0.2,
    *,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """The twin of :func:`dgl_ptdnet.attention_v2`; it makes tensors of size E x F."""
    scores = (torch.nn.functional.leaky_relu(_gather(index, p) + q[index.dst.long()], negative_slope) * w).sum(-1)
    return _attend(index, h, scores, z, return_weights)

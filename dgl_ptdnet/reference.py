"""What the operators mean, in plain torch: slow, readable, and what the tests compare the kernels with.

Every function takes the arguments of its twin in :mod:`dgl_ptdnet` and works in the dtype it is given; in
float64 it is the specification.
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
    """The twin of :func:`dgl_ptdnet.edge_gate`; it makes tensors of size E x H, and needs no index."""
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

"""The MLP on both ends of an edge, applied to nodes instead of edges."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .ops import linear_maps


class EdgeMLP(nn.Module):
    """An MLP on [h_u, h_v], as rows p and q of nodes and weights w: an edge's logit is sum_k w_k relu(p_uk + q_vk).

    Parameters
    ----------
    in_feats : int or tuple[int, int]
        Size of the features of sources and destinations.
    hidden : int
        Hidden units; with 0 the logit is p_u + q_v.
    tower : int
        Size of a layer with ReLU before the rows, one for sources and one for destinations; 0: none.
    symmetric : bool
        Make the logits of (u, v) and (v, u) equal: each is the mean of both.
    """

    def __init__(self, in_feats: int | tuple[int, int], hidden: int, tower: int, symmetric: bool) -> None:
        super().__init__()
        sizes = in_feats if isinstance(in_feats, tuple) else (in_feats, in_feats)
        if min(sizes) < 1 or hidden < 0 or tower < 0:
            raise ValueError(
                f"in_feats must be positive, hidden and tower not negative; got {in_feats}, {hidden} and {tower}"
            )
        if symmetric and sizes[0] != sizes[1]:
            raise ValueError(f"symmetric=True needs both ends' features to be of one size; got in_feats={in_feats}")
        self.in_feats, self.symmetric = sizes, symmetric
        self.activation = "relu" if hidden else "identity"
        self.tower_src = nn.Linear(sizes[0], tower) if tower else None
        self.tower_dst = nn.Linear(sizes[1], tower) if tower else None
        width = tuple(tower or size for size in sizes)
        rows = hidden or 1
        self.weight_src = nn.Parameter(torch.empty(rows, width[0]))
        self.weight_dst = nn.Parameter(torch.empty(rows, width[1]))
        self.bias = nn.Parameter(torch.empty(rows)) if hidden else None
        self.w = nn.Parameter(torch.empty(hidden)) if hidden else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights as torch does for Linear layers on [h_u, h_v] and on the hidden units."""
        bound = (self.weight_src.shape[1] + self.weight_dst.shape[1]) ** -0.5
        for parameter in (self.weight_src, self.weight_dst, self.bias):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)
        if self.w is not None:
            nn.init.uniform_(self.w, -(len(self.w) ** -0.5), len(self.w) ** -0.5)
        for tower in (self.tower_src, self.tower_dst):
            if tower is not None:
                tower.reset_parameters()

    def maps(self) -> list[tuple[Tensor, Tensor | None]]:
        """Weights and biases of the two linear maps from features to rows p and q; none where towers come first."""
        return [] if self.tower_src is not None else self._maps()

    def _maps(self) -> list[tuple[Tensor, Tensor | None]]:
        return [(self.weight_src, self.bias), (self.weight_dst, None)]

    def rows(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Rows p and q of all nodes."""
        if self.tower_src is None:
            source, destination = linear_maps(h, self._maps())
            return source, destination
        return self.as_source(h), self.as_destination(h)

    def as_source(self, h: Tensor) -> Tensor:
        h = h if self.tower_src is None else torch.relu(self.tower_src(h))
        return linear_maps(h, self._maps()[:1])[0]

    def as_destination(self, h: Tensor) -> Tensor:
        h = h if self.tower_dst is None else torch.relu(self.tower_dst(h))
        return linear_maps(h, self._maps()[1:])[0]

    def forward(
        self, h_src: Tensor, h_dst: Tensor, shared: bool, rows: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Rows p, q and weights w of an edge's logit.

        Parameters
        ----------
        h_src, h_dst : torch.Tensor
            Features of the sources and destinations, :math:`(N, F)`.
        shared : bool
            The destinations are the first of the sources.
        rows : tuple[torch.Tensor, torch.Tensor], optional
            The rows p and q of all nodes, where they are computed already. Only with ``shared``.

        Returns
        -------
        tuple[torch.Tensor, torch.Tensor, torch.Tensor]
            p :math:`(N_{src}, H)`, q :math:`(N_{dst}, H)` and w :math:`(H,)`.
        """
        for name, h, size in (("source", h_src, self.in_feats[0]), ("destination", h_dst, self.in_feats[1])):
            if h.dim() != 2 or h.shape[1] != size:
                raise ValueError(
                    f"the gate takes {name} features [N, {size}]; got shape {tuple(h.shape)}. Make the gate with "
                    f"in_feats={h.shape[-1] if h.dim() else 1}, or pass other features"
                )
        w = self.weight_src.new_ones(1) if self.w is None else self.w
        if shared:
            source, destination = rows or self.rows(h_src)
            if not self.symmetric:
                return source, destination[: len(h_dst)], w
            turned = torch.cat([destination, source], 1)[: len(h_dst)]
            return torch.cat([source, destination], 1), turned, torch.cat([w, w]) / 2
        if not self.symmetric:
            return self.as_source(h_src), self.as_destination(h_dst), w
        p, q = self.rows(h_src), self.rows(h_dst)
        return torch.cat(p, 1), torch.cat(q[::-1], 1), torch.cat([w, w]) / 2


class NoMLP(nn.Module):
    """Takes the place of an :class:`EdgeMLP` where the ends of an edge add nothing to its logit."""

    activation, in_feats = "identity", ()

    def maps(self) -> list[tuple[Tensor, Tensor | None]]:
        """No linear maps."""
        return []

    def forward(self, h_src: Tensor, h_dst: Tensor, shared: bool, rows: None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Rows p :math:`(N_{src}, 1)` and q :math:`(N_{dst}, 1)` of zeros, and w :math:`(1,)`, which is 1."""
        p = h_src.new_zeros(len(h_src), 1, dtype=torch.float32)
        return p, p[: len(h_dst)] if shared else p.new_zeros(len(h_dst), 1), p.new_ones(1)

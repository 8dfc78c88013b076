"""Learned gates as modules on DGL graphs, and what a training loop asks of the gates of a model."""

from __future__ import annotations

import math
import weakref
from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from .graph import Edges, edge_ids, edges_of, pair_of, shared_ids
from .ops import EdgeIndex, acc_dtype, edge_dot, edge_gate, linear_maps
from .rank import LowRank


class Gate(nn.Module):
    """What gates have in common: noise of their own, and the gates of the last call.

    The noise is a seed, drawn from torch's generator when the gate is made, and a counter of the draws. Both are in
    the state_dict, so a run that is resumed goes on with the draws that it would have had.
    """

    noise: Tensor
    self_loops = False  # whether self-loops are gated like other edges
    tau: Any = None  # the temperature, where a gate has one

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("noise", torch.stack([torch.randint(2**63 - 1, ()), torch.zeros((), dtype=torch.int64)]))
        self._last: tuple[EdgeIndex, Tensor, Tensor | None] | None = None

    def draw(self) -> Tensor | None:
        """Seed and offset of a new draw in training, None in evaluation."""
        if not self.training:
            return None
        noise = self.noise.clone()
        self.noise[1] += 1
        return noise

    def keep(self, edges: Edges, z: Tensor, penalty: Tensor | None = None) -> Tensor:
        self._last = (edges.index, z, penalty)
        return z

    @property
    def gates(self) -> Tensor | None:
        """The gates of the last call, with their gradient; None before the first."""
        return None if self._last is None else self._last[1]

    @property
    def penalty(self) -> Tensor | None:
        """The expected number of edges that the last call kept; None for gates that have no such number."""
        return None if self._last is None else self._last[2]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}  # results of a call are not part of a copy


class EdgeMLP(nn.Module):
    """The rows p, q and weights w with which an edge's logit, sum_k w_k relu(p_uk + q_vk), is an MLP on [h_u, h_v]."""

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
        """As torch's Linear layers on [h_u, h_v] and on the hidden units start."""
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
        """Weights and biases of the linear maps from features (or a tower's output) to rows, as source and as
        destination."""
        return [(self.weight_src, self.bias), (self.weight_dst, None)]

    def rows(self, h: Tensor) -> tuple[Tensor, Tensor]:
        """Of nodes as sources, and as destinations."""
        if self.tower_src is None:
            source, destination = linear_maps(h, self.maps())
            return source, destination
        return self.as_source(h), self.as_destination(h)

    def as_source(self, h: Tensor) -> Tensor:
        h = h if self.tower_src is None else torch.relu(self.tower_src(h))
        return linear_maps(h, self.maps()[:1])[0]

    def as_destination(self, h: Tensor) -> Tensor:
        h = h if self.tower_dst is None else torch.relu(self.tower_dst(h))
        return linear_maps(h, self.maps()[1:])[0]

    def forward(
        self, h_src: Tensor, h_dst: Tensor, shared: bool, rows: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """p, q, w. ``shared``: the destinations are the first of the sources, and ``rows`` may be there already."""
        for name, h, size in (("source", h_src, self.in_feats[0]), ("destination", h_dst, self.in_feats[1])):
            if h.dim() != 2 or h.shape[1] != size:
                raise ValueError(f"the gate takes {name} features [N, {size}]; got shape {tuple(h.shape)}")
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


class EdgeGate(Gate):
    r"""The gate of every edge, learned from the features of its two ends: PTDNet's denoising network.

    .. math::
        l_e &= w^T \mathrm{relu}(W_s h_u + W_d h_v + b) + c, \qquad e = (u, v) \\
        z_e &= \min(1, \max(0, s_e (\zeta - \gamma) + \gamma)), \qquad
        s_e = \sigma((\log \epsilon - \log(1 - \epsilon) + l_e) / \tau)

    In training the gates are sampled; in evaluation :math:`s_e = \sigma(l_e)`. All of it is one fused kernel over the
    edges (:func:`dgl_ptdnet.edge_gate`): no tensor of size edges x features or edges x hidden is made.

    Parameters
    ----------
    in_feats : int or tuple[int, int]
        Size of the node features; a pair for sources and destinations of different size.
    hidden : int
        Hidden units of the MLP on :math:`[h_u, h_v]`. 0: none, the logit is a sum of a number for each end.
    symmetric : bool
        For undirected graphs: an edge and its reverse get equal logits and equal draws. Parallel edges share a draw.
    edge_feats : int
        Size of edge features, taken from ``g.edata[edge_field]``; a linear map of them is added to the logit.
    edge_field : str
        Name of the edge features.
    similarity : bool
        Add a learned number times the cosine of the two ends' features to the logit. Where the features do not
        learn, the cosines are computed once.
    tower : int
        Size of a layer, with ReLU, that each end's features go through first, one for sources and one for
        destinations: the two towers of the authors' code, which has ``hidden=0`` or a second hidden layer.
    normalize : bool
        Normalise each node's features to mean 0 and variance 1 first.
    bias : float
        What :math:`c` starts from. Positive: the gates start open.
    tau : float
        Temperature, an attribute: a schedule sets ``gate.tau`` (see :func:`temperature`, :func:`set_temperature`).
    gamma, zeta : float
        The samples are stretched to :math:`(\gamma, \zeta)` and clipped; gamma < 0 and zeta > 1.
    self_loops : bool
        Whether self-loops are gated. By default their gate is 1, and has no gradient.
    rank : int
        K of the low-rank term, see :func:`penalty`.

    Attributes
    ----------
    gates : torch.Tensor
        The gates of the last call.
    penalty : torch.Tensor
        The expected number of edges that the last call kept, a scalar with gradient: the L0 term.

    Notes
    -----
    Called as ``gate(g, h)`` with node features :math:`(N, F)`, as ``gate(g, (h_src, h_dst))`` for bipartite graphs, and
    with either for blocks, it returns the gates :math:`(E,)`, float32 (float64 for float64 features). In a graph or
    block that was sampled from another one, an edge has the draw that it has in the whole graph (``dgl.EID``).

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2, 2], [1, 2, 0, 2]))
    >>> gate = ptd.EdgeGate(8, hidden=16)
    >>> z = gate(g, torch.randn(3, 8))
    >>> z.shape, z[3].item()  # the self-loop stays open
    (torch.Size([4]), 1.0)
    >>> gate.penalty.backward()
    """

    def __init__(
        self,
        in_feats: int | tuple[int, int],
        hidden: int = 64,
        *,
        symmetric: bool = False,
        edge_feats: int = 0,
        edge_field: str = "feat",
        similarity: bool = False,
        tower: int = 0,
        normalize: bool = False,
        bias: float = 2.0,
        tau: float = 1.0,
        gamma: float = -0.1,
        zeta: float = 1.1,
        self_loops: bool = False,
        rank: int = 1,
    ) -> None:
        super().__init__()
        if not (gamma < 0 and zeta > 1 and tau > 0):
            raise ValueError(f"gamma < 0, zeta > 1 and tau > 0 are needed; got {gamma}, {zeta} and {tau}")
        self.mlp = EdgeMLP(in_feats, hidden, tower, symmetric)
        self.c = nn.Parameter(torch.tensor(float(bias)))
        self.edge_map = nn.Linear(edge_feats, 1, bias=False) if edge_feats else None
        self.similarity = nn.Parameter(torch.ones(())) if similarity else None
        self.low_rank = LowRank(rank)
        self.symmetric, self.edge_field, self.normalize, self.self_loops = symmetric, edge_field, normalize, self_loops
        self.tau, self.gamma, self.zeta = tau, gamma, zeta
        self._cosines: tuple[Any, ...] = ()

    def maps(self) -> list[tuple[Tensor, Tensor | None]]:
        """Weights and biases of the linear maps that the gate starts with; none where it starts with something else.
        A layer with the same input makes them along with its own and passes the result as ``rows``."""
        return [] if self.normalize or self.mlp.tower_src is not None else self.mlp.maps()

    def forward(self, g: Any, h: Tensor | tuple[Tensor, Tensor], rows: tuple[Tensor, Tensor] | None = None) -> Tensor:
        edges = edges_of(g)
        return self._gates(edges, g, slice(None), h, shared_ids(g) if self.symmetric else edge_ids(g), rows)

    def _gates(
        self, edges: Edges, g: Any, chosen: Any, h: Any, ids: Tensor | None, rows: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """Of ``edges``: all of the graph's, or those ``chosen`` by number."""
        h_src, h_dst = pair_of(g, h)
        if self.normalize:
            shared = not isinstance(h, tuple)
            h_src = functional.layer_norm(h_src, h_src.shape[1:])
            h_dst = h_src[: len(h_dst)] if shared else functional.layer_norm(h_dst, h_dst.shape[1:])
        p, q, w = self.mlp(h_src, h_dst, not isinstance(h, tuple), rows)
        bias = None
        if self.similarity is not None:
            bias = self.similarity * self._cosine(edges.index, h_src, h_dst)
        if self.edge_map is not None:
            feats = self._edge_features(g)[chosen]
            bias = self.edge_map(feats).squeeze(1) + (0 if bias is None else bias)
        if not self.self_loops and edges.loop_bias is not None:
            bias = edges.loop_bias if bias is None else torch.where(edges.loops, torch.inf, bias)  # type: ignore
        z, kept = edge_gate(
            *(edges.index.src, edges.index.dst, p, q, w, self.c),
            edge_bias=None if bias is None else bias.to(acc_dtype(p)),
            activation=self.mlp.activation,
            tau=self.tau,
            gamma=self.gamma,
            zeta=self.zeta,
            noise=self.draw(),
            edge_ids=ids,
            index=edges.index,
            penalty=True,
        )
        return self.keep(edges, z, kept)

    def _edge_features(self, g: Any) -> Tensor:
        if self.edge_field not in g.edata:
            raise KeyError(
                f"the gate was made with edge_feats and reads g.edata[{self.edge_field!r}], which the graph does not "
                "have. Set it, or name another field with edge_field"
            )
        feats = g.edata[self.edge_field]
        return feats[:, None] if feats.dim() == 1 else feats

    def _cosine(self, index: EdgeIndex, h_src: Tensor, h_dst: Tensor) -> Tensor:
        """Remembered for the last features and edges, if the features do not learn."""
        learns = h_src.requires_grad or h_dst.requires_grad
        versions = (h_src._version, h_dst._version, h_dst.data_ptr())
        if not learns and self._cosines:
            rows, edges, known, cosines = self._cosines
            if rows() is h_src and edges() is index and known == versions:
                return cosines
        source, destination = (functional.normalize(h, dim=1) for h in (h_src, h_dst))
        cosines = edge_dot(index, source, destination)
        self._cosines = () if learns else (weakref.ref(h_src), weakref.ref(index), versions, cosines)
        return cosines

    def hook(self, node_field: str, edge_field: str) -> Callable[[Any], dict[str, Tensor]]:
        """A function for ``g.apply_edges`` (or a message function) that writes the gates into an edge field.

        It runs the fused kernel on the graph itself: DGL does not gather the features of the edges' ends. Works on
        graphs, one edge type of a heterograph, blocks, and with ``apply_edges(..., edges=...)``.

        Parameters
        ----------
        node_field : str
            Name of the node features.
        edge_field : str
            Name of the edge field for the gates.

        Examples
        --------
        >>> import dgl, torch
        >>> import dgl_ptdnet as ptd
        >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
        >>> g.ndata["h"] = torch.randn(3, 8)
        >>> gate = ptd.EdgeGate(8)
        >>> g.apply_edges(gate.hook("h", "gate"))
        >>> g.edata["gate"].shape
        torch.Size([3])
        """

        def apply(batch: Any) -> dict[str, Tensor]:
            g, chosen = batch._graph, batch._eid.long()
            h_src, h_dst = g.srcdata[node_field], g.dstdata[node_field]
            h = h_src if not g.is_block and g.srctypes == g.dsttypes else (h_src, h_dst)
            if len(chosen) == g.num_edges() and bool((chosen.diff() == 1).all()):
                return {edge_field: self(g, h)}
            whole = edges_of(g)
            src, dst = whole.index.src[chosen], whole.index.dst[chosen]
            edges = Edges(src, dst, whole.index.num_src, whole.index.num_dst, whole.same_nodes)
            ids = shared_ids(g) if self.symmetric else edge_ids(g)
            ids = chosen if ids is None else ids[chosen]
            return {edge_field: self._gates(edges, g, chosen, h, ids)}

        return apply

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_cosines": ()}


def gates(model: nn.Module) -> dict[str, Tensor]:
    """The gates that each gate of a model gave in its last call, by the gate's name, with their gradients.

    Parameters
    ----------
    model : torch.nn.Module
        A model with gates in it.

    Returns
    -------
    dict[str, torch.Tensor]
        Name to gates :math:`(E,)`. Gates that were not called yet are left out.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> conv = ptd.Denoised(dgl.nn.GraphConv(8, 4), ptd.EdgeGate(8))
    >>> y = conv(g, torch.randn(3, 8))
    >>> {name: z.shape for name, z in ptd.gates(conv).items()}
    {'gate': torch.Size([3])}
    """
    return {name: gate.gates for name, gate in _gates_of(model) if gate.gates is not None}


def _gates_of(model: nn.Module) -> list[tuple[str, Gate]]:
    return [(name, module) for name, module in model.named_modules() if isinstance(module, Gate)]


def penalty(model: nn.Module, edges: float = 0.0, rank: float = 0.0) -> Tensor:
    r"""PTDNet's two regularisers, of the last call of a model.

    .. math::
        \lambda_{edges} \sum_l E[\text{kept edges of layer } l] + \lambda_{rank} \sum_l \| A \odot Z^l \|_{K}

    the expected number of kept edges, and the sum of the K largest singular values of the gated adjacency
    (:class:`LowRank`; each gate's own K is :class:`EdgeGate`'s ``rank``).

    Parameters
    ----------
    model : torch.nn.Module
        A model with :class:`EdgeGate` in it, called before in this step.
    edges : float
        Weight of the expected number of kept edges. It grows with the graph: divide by the number of edges for a
        share.
    rank : float
        Weight of the low-rank term.

    Returns
    -------
    torch.Tensor
        A scalar to add to the loss.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> conv = ptd.Denoised(dgl.nn.GraphConv(8, 4), ptd.EdgeGate(8))
    >>> y = conv(g, torch.randn(3, 8))
    >>> loss = y.square().mean() + ptd.penalty(conv, edges=1e-3, rank=1e-3)
    >>> loss.backward()
    """
    called = [gate for _, gate in _gates_of(model) if isinstance(gate, EdgeGate) and gate._last is not None]
    if not called:
        raise ValueError("model has no EdgeGate that was called yet: call the model first, then penalty(model)")
    total = called[0].c.new_zeros(())
    for gate in called:
        index, z, kept = gate._last  # type: ignore[misc]
        if edges and kept is not None:
            total = total + edges * kept
        if rank:
            total = total + rank * gate.low_rank(index, z)
    return total


def temperature(epoch: int, *, start: float = 2.0, decay: float = 0.99, least: float = 0.05) -> float:
    """The authors' schedule of the temperature: ``max(least, start * decay ** epoch)``.

    Parameters
    ----------
    epoch : int
        The epoch, from 0.
    start, decay, least : float
        Where it starts, its factor an epoch, where it ends.

    Examples
    --------
    >>> from dgl_ptdnet import temperature
    >>> temperature(0), round(temperature(100), 3), temperature(1000)
    (2.0, 0.732, 0.05)
    """
    return max(least, start * math.pow(decay, epoch))


def set_temperature(model: nn.Module, tau: float) -> None:
    """Sets the temperature of every gate in a model.

    Parameters
    ----------
    model : torch.nn.Module
        A model with gates in it.
    tau : float
        The temperature, positive.

    Examples
    --------
    >>> import dgl_ptdnet as ptd
    >>> gate = ptd.EdgeGate(8)
    >>> ptd.set_temperature(gate, ptd.temperature(epoch=10))
    >>> round(gate.tau, 2)
    1.81
    """
    if not tau > 0:
        raise ValueError(f"tau must be positive; got {tau}")
    for _, gate in _gates_of(model):
        if gate.tau is not None:
            gate.tau = tau

"""Gates as modules: a number in [0, 1] for every edge of a DGL graph."""

from __future__ import annotations

import weakref
from typing import Any, Callable, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .graph import Edges, edge_ids, edges_of, shared_ids, split_features
from .low_rank import LowRank
from .mlp import EdgeMLP, NoMLP
from .ops import EdgeIndex, acc_dtype, edge_dot, edge_gate


class GateCall(NamedTuple):
    """The result of a gate's last call."""

    edges: Edges
    z: Tensor  # [E]
    penalty: Tensor | None  # the expected number of open gates, where the gate has a formula for it


class Gate(nn.Module):
    """The base of gates: their noise, and the gates of the last call.

    The noise is a seed, drawn from torch's generator when the gate is made, and the number of draws so far. Both are in
    the state_dict, so a resumed run continues with the same draws.
    """

    noise: Tensor
    self_loops = False  # whether self-loops are gated like other edges
    tau: Any = None  # the temperature, where a gate has one

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("noise", torch.stack([torch.randint(2**63 - 1, ()), torch.zeros((), dtype=torch.int64)]))
        self.last: GateCall | None = None

    def draw(self) -> Tensor | None:
        """Seed and offset of a new draw in training, None in evaluation."""
        if not self.training:
            return None
        noise = self.noise.clone()
        self.noise[1] += 1
        return noise

    def remember(self, edges: Edges, z: Tensor) -> Tensor:
        """Stores the gates of a call, and returns them. Those of self-loops become 1, unless ``self_loops``."""
        z = z if self.self_loops else edges.open_loops(z)
        self.last = GateCall(edges, z, None)
        return z

    @property
    def gates(self) -> Tensor | None:
        """The gates of the last call, with their gradient; None before the first."""
        return None if self.last is None else self.last.z

    @property
    def penalty(self) -> Tensor | None:
        """The expected number of open gates of the last call; None for gates without a formula for it."""
        return None if self.last is None else self.last.penalty

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None}  # the results of a call are not part of a copy


def call_gate(gate: Any, g: Any, h: Any, *rows: Any) -> Tensor:
    """The gates that a layer multiplies with: what ``gate(g, h)`` returns, checked, and 1 at self-loops unless the gate
    has a true attribute ``self_loops``."""
    z, edges = gate(g, h, *rows), edges_of(g)
    if not isinstance(z, Tensor) or z.shape != (edges.index.num_edges,):
        got = f"shape {tuple(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(
            f"the gate must return a tensor [E], a number for each of the {edges.index.num_edges} edges; got {got}"
        )
    if getattr(gate, "self_loops", False) or (isinstance(gate, Gate) and gate.gates is z):
        return z
    return edges.open_loops(z)


class Gated(nn.Module):
    """The base of layers with a gate. It remembers the gates that the layer used, which :func:`gates` reports."""

    gate: nn.Module

    def __init__(self) -> None:
        super().__init__()
        self.gates: Tensor | None = None

    def use_gate(self, g: Any, h: Any, *rows: Any) -> Tensor:
        """The gates of a call, which it remembers."""
        self.gates = call_gate(self.gate, g, h, *rows)
        return self.gates

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "gates": None}  # the results of a call are not part of a copy


class EdgeGate(Gate):
    r"""The gate of every edge, learned from the features of its two ends: PTDNet's denoising network.

    .. math::
        l_e &= w^T \mathrm{relu}(W_s h_u + W_d h_v + b) + c, \qquad e = (u, v) \\
        z_e &= \min(1, \max(0, s_e (\zeta - \gamma) + \gamma)), \qquad
        s_e = \sigma((\log \epsilon - \log(1 - \epsilon) + l_e) / \tau)

    In training the gates are sampled; in evaluation :math:`s_e = \sigma(l_e)`. One fused kernel over the edges
    (:func:`dgl_ptdnet.edge_gate`) computes them: no tensor of size edges x features or edges x hidden is made.

    Parameters
    ----------
    in_feats : int or tuple[int, int]
        Size of the node features; a pair for sources and destinations of different size.
    hidden : int
        Hidden units of the MLP on :math:`[h_u, h_v]`. With 0 the logit is the sum of one number for each end.
        Default: 64.
    symmetric : bool
        Give an edge and its reverse equal logits and equal draws: for undirected graphs. Parallel edges share a draw.
        Default: False.
    edge_feats : int
        Size of the edge features in ``g.edata[edge_field]``. A linear map of them is added to the logit. Default: 0,
        no edge features.
    edge_field : str
        Name of the edge features. Default: ``"feat"``.
    similarity : bool
        Add a learned number times the cosine of the two ends' features to the logit. The cosines are computed once
        where the features do not learn. Default: False.
    tower : int
        Size of a layer with ReLU that each end's features go through first, one layer for sources and one for
        destinations. The authors' code has such towers, with ``hidden=0`` or a second hidden layer. Default: 0, none.
    normalize : bool
        Normalise each node's features to mean 0 and variance 1 first. Default: False.
    bias : float
        What :math:`c` starts from. With a positive number the gates start open. Default: 2.0.
    tau : float
        Temperature of the samples. Schedules set the attribute ``gate.tau``, see :func:`dgl_ptdnet.set_temperature`.
        Default: 1.0.
    gamma, zeta : float
        The samples are stretched to :math:`(\gamma, \zeta)` and clipped to [0, 1]; gamma < 0 and zeta > 1. Default:
        -0.1 and 1.1.
    self_loops : bool
        Gate self-loops like other edges. Default: False, their gate is 1 and has no gradient.
    rank_k : int
        K of the low-rank term, see :func:`dgl_ptdnet.penalty`. Default: 1.

    Attributes
    ----------
    gates : torch.Tensor
        The gates of the last call.
    penalty : torch.Tensor
        The expected number of open gates of the last call, a scalar with gradient: the L0 term.

    Notes
    -----
    In a graph or block that was sampled from another graph, an edge has the same draw as in the whole graph: draws are
    keyed by ``dgl.EID``.

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
        rank_k: int = 1,
    ) -> None:
        super().__init__()
        if not (gamma < 0 and zeta > 1):
            raise ValueError(
                f"gamma must be below 0 and zeta above 1, to reach gates of 0 and 1; got {gamma} and {zeta}"
            )
        if not tau > 0:
            raise ValueError(f"tau must be positive; got {tau}")
        self.mlp = EdgeMLP(in_feats, hidden, tower, symmetric)
        self.c = nn.Parameter(torch.tensor(float(bias)))
        self.edge_map = nn.Linear(edge_feats, 1, bias=False) if edge_feats else None
        self.similarity = nn.Parameter(torch.ones(())) if similarity else None
        self.low_rank = LowRank(rank_k)
        self.symmetric, self.edge_field, self.normalize, self.self_loops = symmetric, edge_field, normalize, self_loops
        self.tau, self.gamma, self.zeta = tau, gamma, zeta
        self._cosines: tuple[Any, ...] = ()

    def maps(self) -> list[tuple[Tensor, Tensor | None]]:
        """Weights and biases of the linear maps that the gate applies to its input first; none where it does something
        else first. A layer with the same input computes them together with its own and passes the result as ``rows``.
        """
        return [] if self.normalize else self.mlp.maps()

    def forward(self, g: Any, h: Tensor | tuple[Tensor, Tensor], rows: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """The gate of every edge.

        Parameters
        ----------
        g : DGLGraph
            A graph with one edge type, or a block.
        h : torch.Tensor or tuple[torch.Tensor, torch.Tensor]
            Node features :math:`(N, F)`, or a pair: those of the sources and of the destinations. A block takes its
            sources' features or a pair.
        rows : tuple[torch.Tensor, torch.Tensor], optional
            The features after the linear maps of :meth:`maps`, if the caller has computed them. Default: None.

        Returns
        -------
        torch.Tensor
            The gates :math:`(E,)`, float32; float64 for float64 features.
        """
        edges = edges_of(g)
        return self._gates(edges, g, slice(None), h, self._draw_ids(g), rows)

    def _draw_ids(self, g: Any) -> Tensor | None:
        if not self.training:
            return None
        return shared_ids(g) if self.symmetric else edge_ids(g)

    def _gates(
        self, edges: Edges, g: Any, chosen: Any, h: Any, ids: Tensor | None, rows: tuple[Tensor, Tensor] | None = None
    ) -> Tensor:
        """The gates of ``edges``: all edges of the graph, or those that ``chosen`` numbers."""
        h_src, h_dst = split_features(g, h)
        if self.normalize:
            h_src, h_dst = _normalized(h_src, h_dst, isinstance(h, tuple))
        p, q, w = self.mlp(h_src, h_dst, not isinstance(h, tuple), rows)
        bias = None
        if self.similarity is not None:
            bias = self.similarity * self._cosine(edges.index, h, h_src, h_dst)
        if self.edge_map is not None:
            feats = self._edge_features(g)[chosen]
            bias = self.edge_map(feats).squeeze(1) + (0 if bias is None else bias)
        if not self.self_loops:
            bias = edges.open_loops_by_bias(bias)
        z, penalty = edge_gate(
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
        self.last = GateCall(edges, z, penalty)
        return z

    def _edge_features(self, g: Any) -> Tensor:
        if self.edge_field not in g.edata:
            raise KeyError(
                f"the gate was made with edge_feats and reads g.edata[{self.edge_field!r}], which the graph does not "
                "have. Set it, or name another field with edge_field"
            )
        feats = g.edata[self.edge_field]
        return feats[:, None] if feats.dim() == 1 else feats

    def _cosine(self, index: EdgeIndex, h: Any, h_src: Tensor, h_dst: Tensor) -> Tensor:
        """The cosine of the ends' features. For features that do not learn it is kept, until others come."""
        given = h if isinstance(h, tuple) else (h,)
        keep = not any(x.requires_grad or x.is_inference() for x in given) and not torch.is_inference_mode_enabled()
        versions = [x._version for x in given] if keep else []
        if keep and self._cosines:
            known, edges, then, cosines = self._cosines
            same = len(known) == len(given) and all(old() is new for old, new in zip(known, given))
            if same and edges() is index and then == versions:
                return cosines
        source, destination = (functional.normalize(x, dim=1) for x in (h_src, h_dst))
        cosines = edge_dot(index, source, destination)
        self._cosines = ([weakref.ref(x) for x in given], weakref.ref(index), versions, cosines) if keep else ()
        return cosines

    def hook(self, node_field: str, edge_field: str) -> Callable[[Any], dict[str, Tensor]]:
        """A function for ``g.apply_edges``, or a message function, that writes the gates into an edge field.

        It runs the fused kernel on the graph itself, so DGL does not gather the features of the edges' ends. It works
        on graphs, one edge type of a heterograph, blocks, and with ``apply_edges(..., edges=...)``.

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
            ids = self._draw_ids(g)
            ids = chosen if ids is None else ids[chosen]
            return {edge_field: self._gates(edges, g, chosen, h, ids)}

        return apply

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_cosines": ()}


def _normalized(h_src: Any, h_dst: Any, apart: bool) -> tuple[Any, Any]:
    """Each row with mean 0 and variance 1. ``apart``: the destinations are not the first of the sources."""
    source = functional.layer_norm(h_src, h_src.shape[1:])
    if apart:
        return source, functional.layer_norm(h_dst, h_dst.shape[1:])
    return source, source if h_dst is h_src else source[: len(h_dst)]


class PriorGate(EdgeGate):
    r"""A gate that starts from what is already known of every edge:

    .. math:: l_e = s B_e + c

    with :math:`B_e` from ``source``; :math:`s` and :math:`c` are learned, and start from 1 and ``bias``.

    Parameters
    ----------
    in_feats : int or tuple[int, int]
        Size of the node features.
    source : callable
        ``source(g)`` returns :math:`B_e`, the log-odds that each edge is real, :math:`(E,)`. The gate does not own it:
        its parameters and state are not the gate's.
    mlp : bool
        Add the logit of :class:`EdgeGate`'s MLP. Default: False.
    bias : float
        What :math:`c` starts from. Default: 0.0.
    **options
        Those of :class:`EdgeGate`.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_ptdnet.gate import PriorGate
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> gate = PriorGate(8, lambda g: torch.tensor([4.0, 0.0, -4.0]))
    >>> gate.eval()(g, torch.randn(3, 8)).tolist()
    [1.0, 0.5, 0.0]
    """

    def __init__(
        self, in_feats: int | tuple[int, int], source: Any, *, mlp: bool = False, bias: float = 0.0, **options: Any
    ) -> None:
        super().__init__(in_feats, edge_feats=1, bias=bias, **options)
        nn.init.ones_(self.edge_map.weight)  # type: ignore[union-attr]
        self._source = (source,)  # in a tuple: a module in it does not become a part of this one
        if not mlp:
            self.mlp, self.normalize = NoMLP(), False  # type: ignore[assignment]

    def _edge_features(self, g: Any) -> Tensor:
        return self._source[0](g)[:, None]

"""Graph neural networks of any depth, and the gates that each method puts on their edges."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from .._dgl import dgl
from ..baselines import DropEdge, NeuralSparse
from ..conv import Denoised
from ..gate import EdgeGate, Gate, PriorGate
from ..graph import edges_of, split_features
from ..sparse import dropout
from .settings import Settings


class GNN(nn.Module):
    r"""Layers of DGL convolutions, each with a gate on its edges.

    Parameters
    ----------
    backbone : str
        ``"gcn"``, ``"sage"`` (mean), ``"gat"`` or ``"gin"``; or ``"mlp"``, which ignores edges.
    in_feats, hidden, out_feats : int
        Sizes of the input, of hidden layers and of the output. For gat, ``hidden`` is the size of each head.
    make_gate : callable, optional
        Makes a gate from the size of a layer's input. Default: every gate is 1.
    layers : int
        Number of convolutions. Default: 2.
    heads, out_heads : int
        Attention heads of gat: those of hidden layers are concatenated, those of the last layer are averaged. Default:
        8 and 1.
    dropout : float
        Dropout of every layer's input, and of attention weights. Default: 0.5.
    residual : bool
        Add a linear map of each layer's input to its output. Default: False.
    node_mlp : int
        Hidden units of an MLP of each layer's input that is added to its output. Default: 0, no such MLP.
    floor : float
        As for :class:`dgl_ptdnet.Denoised`. Default: 0.0.

    Notes
    -----
    Called as ``model(g, x)`` with features :math:`(N, F)`, or with a list of blocks, one for each layer, and the
    features of the first block's source nodes. gcn and gat need a graph with self-loops.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> from dgl_ptdnet.train import GNN
    >>> g = dgl.add_self_loop(dgl.rand_graph(100, 500))
    >>> model = GNN("gcn", 8, 16, 3, lambda size: ptd.EdgeGate(size))
    >>> model(g, torch.randn(100, 8)).shape
    torch.Size([100, 3])
    """

    def __init__(
        self,
        backbone: str,
        in_feats: int,
        hidden: int,
        out_feats: int,
        make_gate: Callable[[int], nn.Module] = lambda size: DropEdge(0.0),
        *,
        layers: int = 2,
        heads: int = 8,
        out_heads: int = 1,
        dropout: float = 0.5,
        residual: bool = False,
        node_mlp: int = 0,
        floor: float = 0.0,
    ) -> None:
        super().__init__()
        self.backbone, self.dropout, self.residual = backbone, dropout, residual
        self.layers, self.skips, self.mlps = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        size = in_feats
        for number in range(layers):
            last = number == layers - 1
            width, num_heads = (out_feats, out_heads) if last else (hidden, heads)
            if backbone == "mlp":
                self.layers.append(nn.Linear(size, width))
            else:
                conv = _conv(backbone, size, width, num_heads, dropout)
                self.layers.append(Denoised(conv, make_gate(size), floor=floor))
            side_by_side = width * num_heads if backbone == "gat" and not last else width
            self.skips.append(nn.Linear(size, side_by_side, bias=False) if residual else nn.Identity())
            if node_mlp:
                mlp = nn.Sequential(nn.Linear(size, node_mlp), nn.ReLU(), nn.Linear(node_mlp, side_by_side))
                self.mlps.append(mlp)
            size = side_by_side

    @property
    def gates(self) -> list[Any]:
        """The gate of each layer."""
        return [layer.gate for layer in self.layers if isinstance(layer, Denoised)]

    def forward(self, g: Any, x: Any) -> Tensor:
        for number, (layer, skip) in enumerate(zip(self.layers, self.skips)):
            graph = g[number] if isinstance(g, (list, tuple)) else g
            last = number == len(self.layers) - 1
            x = dropout(x, self.dropout, self.training)
            out = layer(x) if self.backbone == "mlp" else layer(graph, x)
            if self.backbone == "gat":
                out = out.mean(1) if last else out.flatten(1)
            if self.residual:
                out = out + skip(x)[: len(out)]
            if self.mlps:
                out = out + self.mlps[number](x)[: len(out)]
            x = out if last else functional.elu(out) if self.backbone == "gat" else functional.relu(out)
        return x


def _conv(backbone: str, in_feats: int, out_feats: int, heads: int, dropout: float) -> nn.Module:
    nets = dgl.nn
    if backbone == "gcn":
        return nets.GraphConv(in_feats, out_feats, allow_zero_in_degree=True)
    if backbone == "sage":
        return nets.SAGEConv(in_feats, out_feats, "mean")
    if backbone == "gat":
        return nets.GATConv(in_feats, out_feats, heads, attn_drop=dropout, allow_zero_in_degree=True)
    if backbone == "gin":
        mlp = nn.Sequential(nn.Linear(in_feats, out_feats), nn.ReLU(), nn.Linear(out_feats, out_feats))
        return nets.GINConv(mlp, "sum", learn_eps=True)
    raise ValueError(f"backbone must be gcn, sage, gat, gin or mlp; got {backbone!r}")


class Shut(Gate):
    """Drops every edge."""

    def forward(self, g: Any, h: Any) -> Tensor:
        edges = edges_of(g)
        return self.remember(edges, split_features(g, h)[0].new_zeros(edges.index.num_edges, dtype=torch.float32))


def build(settings: Settings, in_feats: int, out_feats: int, edge_bias: Any = None) -> GNN:
    """The network that the settings describe. ``edge_bias(g)`` is what the gates of ptdnet-plus start from."""
    s = settings

    def make_gate(size: int) -> nn.Module:
        if s.method == "dropedge":
            return DropEdge(s.dropedge_rate)
        if s.method == "neuralsparse":
            return NeuralSparse(size, s.neuralsparse_k, hidden=max(1, s.gate_hidden), tau=s.tau)
        shared: dict[str, Any] = {
            "symmetric": s.gate_symmetric,
            "normalize": s.gate_normalize,
            "bias": s.gate_bias,
            "tau": s.tau,
            "rank_k": s.rank_k,
        }
        if s.method == "ptdnet-plus":
            return PriorGate(size, edge_bias, hidden=s.gate_hidden, mlp=s.gate_mlp, **shared)
        if s.method in ("ptdnet", "ptdnet-wl"):
            return EdgeGate(size, s.gate_hidden, **shared)
        return DropEdge(0.0)

    model = GNN(
        "mlp" if s.method == "mlp" else s.backbone,
        *(in_feats, s.hidden, out_feats, make_gate),
        layers=s.layers,
        heads=s.heads,
        out_heads=s.out_heads,
        dropout=s.dropout,
        residual=s.residual,
        node_mlp=2 * max(1, s.gate_hidden) if "node-mlp" in s.control else 0,  # a gate maps both ends of an edge
        floor=1.0 if s.method == "ptdnet-plus" and s.backbone == "sage" else 0.0,
    )
    if "shut" in s.control:
        model.layers[-1].gate = Shut()
    return model

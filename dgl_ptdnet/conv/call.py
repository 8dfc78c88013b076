"""One call of a denoised layer: its graph, its gates, and sums of messages weighed by them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from .._dgl import dgl
from ..gate import EdgeGate, Gated
from ..graph import edges_of, split_features
from ..ops import acc_dtype, aggregate, linear_maps, normalize
from ..pruning import keep_edges


class Call:
    """The graph and the input of one call. :meth:`begin` asks for the gates; nothing else gives them."""

    def __init__(self, graph: Any, feat: Any, layer: Gated) -> None:
        self.graph, self.edges, self._feat, self._layer = graph, edges_of(graph), feat, layer
        self.index = self.edges.index

    def begin(self, h: Any, *maps: nn.Linear | Tensor) -> tuple[list[Tensor], Messages]:
        """Linear maps of ``h``, given as layers or as weights [S, F], and the gates of the call.

        Where ``h`` is the call's own input, the gate starts with linear maps of the same matrix. They are computed
        together: that saves memory, and the gradients for ``h`` are summed on the way.
        """
        gate: Any = self._layer.gate
        shared = (
            bool(maps)
            and h is self._feat
            and _are_plain(maps)
            and type(gate).forward is EdgeGate.forward
            and set(gate.mlp.in_feats) == {h.shape[-1]}
            and not (has_hooks(gate) or has_hooks(gate.mlp))
        )
        first = gate.maps() if shared else []
        made = mapped(h, *maps, first=first)
        z = self._layer.use_gate(self.graph, self._feat, *([tuple(made[: len(first)])] if first else []))
        return made[len(first) :], Messages(self, z)

    def dropped(self, conv: Any) -> tuple[Tensor, Tensor]:
        """The features of sources and destinations after the convolution's own dropout."""
        feat = self._feat
        pair = isinstance(feat, tuple)
        return split_features(self.graph, tuple(map(conv.feat_drop, feat)) if pair else conv.feat_drop(feat))

    def check_in_degrees(self, conv: Any) -> None:
        if not conv._allow_zero_in_degree and self.edges.has_destination_without_edges:
            raise dgl.DGLError(
                "There are 0-in-degree nodes in the graph; their output would be invalid. Add self-loops with "
                "`g = dgl.add_self_loop(g)`, or make the layer with allow_zero_in_degree=True"
            )


class Messages:
    """The gates ``z`` of a call, and sums of messages weighed by them."""

    def __init__(self, call: Call, z: Tensor) -> None:
        self.call, self.index, self.z = call, call.index, z

    def weights(self, like: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """The gates in the dtype that goes with the features, times the caller's own weights."""
        z = self.z.to(acc_dtype(like))
        return z if edge_weight is None else z * self.checked(edge_weight).to(z.dtype)

    def normalized(self, like: Tensor, norm: str, floor: float, edge_weight: Tensor | None) -> Tensor:
        """The gates divided by gated degrees, times the caller's own weights."""
        z = normalize(self.index, self.weights(like), norm, floor=floor)
        return z if edge_weight is None else z * self.checked(edge_weight).to(z.dtype)

    def checked(self, edge_weight: Tensor) -> Tensor:
        """The caller's weights as [E], or an error that says how many there must be."""
        if edge_weight.numel() != len(self.z):
            raise ValueError(f"edge_weight must be [E] = [{len(self.z)}]; got shape {tuple(edge_weight.shape)}")
        return edge_weight.reshape(-1)

    def sum(self, h: Tensor, weights: Tensor) -> Tensor:
        """The weighted sum at every destination of rows with any number of dimensions."""
        return aggregate(self.index, h.flatten(1), weights).reshape(self.index.num_dst, *h.shape[1:])

    def open_edges(self) -> tuple[Any, Tensor]:
        """A graph of the edges whose gate is above 0, and their numbers."""
        chosen = self.z.detach().nonzero().flatten()
        return keep_edges(self.call.graph, chosen), chosen


def mapped(h: Tensor, *maps: nn.Linear | Tensor, first: Any = ()) -> list[Tensor]:
    """Linear maps of ``h``: those of ``first``, given as weight and bias, then ``maps``, layers or weights [S, F]."""
    if not _are_plain(maps):
        return [functional.linear(h, x) if isinstance(x, Tensor) else x(h) for x in maps]
    return linear_maps(h, [*first, *((x, None) if isinstance(x, Tensor) else (x.weight, x.bias) for x in maps)])


def _are_plain(maps: Any) -> bool:
    return all(isinstance(x, Tensor) or is_plain(x) for x in maps)


def has_hooks(module: nn.Module) -> bool:
    """Whether hooks or a replaced ``forward`` watch a module, or change what it does."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for name in hooks) or "forward" in module.__dict__


def is_plain(layer: nn.Module) -> bool:
    """Whether a module is a linear layer that does nothing but its product."""
    return type(layer) is nn.Linear and not has_hooks(layer)

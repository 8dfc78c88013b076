"""DGL's convolutions with gates on their edges."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from ._dgl import dgl
from .gate import EdgeGate
from .graph import edges_of, pair_of
from .ops import acc_dtype, aggregate, attention, attention_v2, degrees, linear_maps, maximum, normalize
from .pruning import keep_edges

log = logging.getLogger("dgl_ptdnet")


class Denoised(nn.Module):
    r"""A DGL convolution whose edges are weighed by a gate; it is called as the convolution is.

    Layers with kernels of their own, faster with gates than DGL's are with edge weights: ``GraphConv``, ``SAGEConv``,
    ``GATConv``, ``GATv2Conv``, ``GINConv``. Any other convolution that takes ``edge_weight`` gets the gates as those.

    Parameters
    ----------
    conv : torch.nn.Module
        The convolution. It keeps its parameters.
    gate : torch.nn.Module
        Any module that is called as ``gate(g, h)`` with the convolution's own input and returns :math:`(E,)` numbers
        in [0, 1]: :class:`EdgeGate`, :class:`DropEdge`, :class:`NeuralSparse`, or yours.
    after_softmax : bool
        For attention: weigh the attention weights by the gates. By default the gates are inside the softmax,
        :math:`z_e \exp(a_e) / \sum z \exp(a)`, so that what a dropped edge had goes to the others.
    floor : float
        The least gated degree that counts in normalisations and means, see :func:`normalize`. With 0 they are exact;
        with 1 messages fade out with the last gate of a node.

    Notes
    -----
    Degrees are sums of gates: normalisations are those of the gated graph, and a mean is one over kept edges. A node
    that keeps no edge gets zeros from its neighbours, and its own features where the layer has a path for them. With
    gates that are all 1 the result is that of the convolution.

    The graph's self-loops are not gated, unless the gate has an attribute ``self_loops`` that is true. No self-loops
    are added. Attributes of the convolution can be read through the wrapper.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> g = dgl.graph(([0, 1, 2], [1, 2, 0]))
    >>> conv = ptd.Denoised(dgl.nn.GraphConv(8, 4), ptd.EdgeGate(8))
    >>> conv(g, torch.randn(3, 8)).shape
    torch.Size([3, 4])
    >>> conv.gate.gates.shape
    torch.Size([3])
    """

    def __init__(self, conv: nn.Module, gate: nn.Module, *, after_softmax: bool = False, floor: float = 0.0) -> None:
        super().__init__()
        reason = _why_not(conv)
        if reason:
            raise TypeError(f"{type(conv).__name__} cannot be denoised: {reason}")
        if not floor >= 0:
            raise ValueError(f"floor must not be negative; got {floor}")
        self.conv, self.gate = conv, gate
        self.after_softmax, self.floor = after_softmax, floor

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "conv":
                raise
            return getattr(self.conv, name)

    def extra_repr(self) -> str:
        return f"after_softmax={self.after_softmax}, floor={self.floor}"

    def forward(self, graph: Any, feat: Any, *args: Any, **kwargs: Any) -> Any:
        return _layer_of(self.conv)(self, Call(graph, feat, self.gate), feat, *args, **kwargs)


class Call:
    """The graph and gates of one call."""

    def __init__(self, graph: Any, feat: Any, gate: nn.Module) -> None:
        self.graph, self.edges, self._feat, self._gate = graph, edges_of(graph), feat, gate
        self.index = self.edges.index
        self._rows: Any = None

    @cached_property
    def z(self) -> Tensor:
        """The gates. They are asked for after :meth:`maps`, which may do a part of their work."""
        z = self._gate(self.graph, self._feat, *([] if self._rows is None else [self._rows]))
        if z.shape != (self.index.num_edges,):
            raise ValueError(
                f"the gate must return a number for each of the {self.index.num_edges} edges; got {tuple(z.shape)}"
            )
        ungated = not isinstance(self._gate, EdgeGate) and not getattr(self._gate, "self_loops", False)
        return torch.where(self.edges.loops, 1, z) if ungated and self.edges.loops is not None else z

    def maps(self, h: Tensor, *maps: nn.Linear | Tensor) -> list[Tensor]:
        """Linear maps of ``h``, by layers or by weights [S, F]. The gate's own are made along if it has the same input:
        their gradients for ``h`` are then summed on the way."""
        if not all(isinstance(x, Tensor) or _is_plain(x) for x in maps):
            return [functional.linear(h, x) if isinstance(x, Tensor) else x(h) for x in maps]
        gate: Any = self._gate
        shared = h is self._feat and type(gate).forward is EdgeGate.forward and "z" not in self.__dict__
        shared = shared and set(gate.mlp.in_feats) == {h.shape[-1]} and not (_has_hooks(gate) or _has_hooks(gate.mlp))
        first = gate.maps() if shared else []
        ours = [(x, None) if isinstance(x, Tensor) else (x.weight, x.bias) for x in maps]
        made = linear_maps(h, [*first, *ours])
        if first:
            self._rows = tuple(made[: len(first)])
        return made[len(first) :]

    def dropped(self, conv: Any, feat: Any) -> tuple[Tensor, Tensor]:
        """Features of sources and destinations after the convolution's own dropout."""
        pair = isinstance(feat, tuple)
        return pair_of(self.graph, tuple(map(conv.feat_drop, feat)) if pair else conv.feat_drop(feat))

    def gates(self, like: Tensor, edge_weight: Tensor | None = None) -> Tensor:
        """In the dtype that goes with the features, times the caller's own weights."""
        z = self.z.to(acc_dtype(like))
        return z if edge_weight is None else z * self._weights(edge_weight, z)

    def normalized(self, like: Tensor, norm: str, floor: float, edge_weight: Tensor | None) -> Tensor:
        z = normalize(self.index, self.gates(like), norm, floor=floor)
        return z if edge_weight is None else z * self._weights(edge_weight, z)

    def _weights(self, edge_weight: Tensor, z: Tensor) -> Tensor:
        if edge_weight.numel() != len(z):
            raise ValueError(f"edge_weight must be [E] = [{len(z)}]; got shape {tuple(edge_weight.shape)}")
        return edge_weight.reshape(-1).to(z.dtype)

    def sum(self, h: Tensor, weights: Tensor) -> Tensor:
        """Of rows of any number of dimensions."""
        return aggregate(self.index, h.flatten(1), weights).reshape(self.index.num_dst, *h.shape[1:])

    def kept(self) -> tuple[Any, Tensor]:
        """A graph of the edges that are kept, and their numbers."""
        kept = self.z.detach().nonzero().flatten()
        return keep_edges(self.graph, kept), kept

    def check_in_degrees(self, conv: Any) -> None:
        if not conv._allow_zero_in_degree and self.edges.any_without_edges:
            raise dgl.DGLError(
                "There are 0-in-degree nodes in the graph; their output would be invalid. Add self-loops with "
                "`g = dgl.add_self_loop(g)`, or make the layer with allow_zero_in_degree=True"
            )


def _has_hooks(module: nn.Module) -> bool:
    """Whether somebody watches a module, or changes what it does."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for name in hooks) or "forward" in module.__dict__


def _is_plain(layer: nn.Module) -> bool:
    """Whether a linear layer does nothing but its product."""
    return type(layer) is nn.Linear and not _has_hooks(layer)


def _graph_conv(
    layer: Denoised, call: Call, feat: Any, weight: Tensor | None = None, edge_weight: Tensor | None = None
) -> Tensor:
    conv: Any = layer.conv
    call.check_in_degrees(conv)
    if weight is not None and conv.weight is not None:
        raise dgl.DGLError("weight was given, but the layer has its own: make it with weight=False")
    weight = conv.weight if weight is None else weight
    h, _ = pair_of(call.graph, feat)
    first = weight is not None and conv._in_feats > conv._out_feats  # the fewer numbers to sum
    rows = call.maps(h, weight.T)[0] if first else h
    out = call.sum(rows, call.normalized(h, conv._norm, layer.floor, edge_weight))
    out = out if weight is None or first else call.maps(out, weight.T)[0]
    out = out if conv.bias is None else out + conv.bias
    return out if conv._activation is None else conv._activation(out)


def _sage_conv(layer: Denoised, call: Call, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
    conv: Any = layer.conv
    h, h_self = call.dropped(conv, feat)
    kind = conv._aggre_type
    first = kind in ("mean", "gcn") and conv._in_src_feats > conv._out_feats  # the fewer numbers to sum
    layers = [conv.fc_self] if kind != "gcn" and h_self is h else []
    made = call.maps(h, *layers, *([conv.fc_neigh] if first else []))
    rows = made.pop() if first else h
    if kind == "mean":
        neighbours = call.sum(rows, call.normalized(h, "mean", layer.floor, edge_weight))
    elif kind == "gcn":
        own = call.maps(h_self, conv.fc_neigh)[0] if first and isinstance(feat, tuple) else rows[: len(h_self)]
        own = h_self if isinstance(feat, tuple) and not first else own
        gates = call.gates(h)
        total = call.sum(rows, call.gates(h, edge_weight)) + own
        neighbours = total / (degrees(call.index, gates) + 1).to(total.dtype)[:, None]
    elif kind == "pool":
        neighbours = maximum(call.index, torch.relu(conv.fc_pool(h)), call.gates(h, edge_weight))
    else:
        neighbours = _lstm(conv, call, h, call.gates(h, edge_weight))
    neighbours = neighbours if first else call.maps(neighbours, conv.fc_neigh)[0]
    if kind == "gcn":
        out = neighbours if conv.bias is None else neighbours + conv.bias
    else:
        out = (made.pop() if made else call.maps(h_self, conv.fc_self)[0]) + neighbours
    out = out if conv.activation is None else conv.activation(out)
    return out if conv.norm is None else conv.norm(out)


def _lstm(conv: Any, call: Call, h: Tensor, weights: Tensor) -> Tensor:
    """Over the messages of kept edges. A sequence has no sum to fold gates into, so DGL gathers the messages."""
    g, kept = call.kept()
    if g.num_edges() == 0:
        return h.new_zeros(call.index.num_dst, conv._in_src_feats)
    g.srcdata["h"], g.edata["z"] = h, weights[kept].to(h.dtype)[:, None]
    g.update_all(dgl.function.u_mul_e("h", "z", "m"), conv._lstm_reducer)
    return g.dstdata["neigh"]


def _attend(
    layer: Denoised,
    call: Call,
    h: Tensor,
    scores: Callable[..., Any],
    edge_weight: Tensor | None,
    get_attention: bool,
) -> tuple[Tensor, Tensor | None]:
    """``scores`` is an attention operator that wants rows and gates; returns the sums and the attention weights."""
    conv: Any = layer.conv
    z = call.gates(h)
    gate_inside = None if layer.after_softmax else z
    plain = not layer.after_softmax and edge_weight is None and not (conv.training and conv.attn_drop.p > 0)
    if plain:
        if get_attention:
            return scores(h, gate_inside, return_weights=True)
        return scores(h, gate_inside), None
    # Weights that are changed after the softmax: one pass for them alone, one for the sum.
    _, weights = scores(h.new_zeros(len(h), h.shape[1], 1), gate_inside, return_weights=True)
    weights = conv.attn_drop(weights)
    if layer.after_softmax:
        weights = weights * z[:, None]
    if edge_weight is not None:
        weights = weights * edge_weight.reshape(-1, 1).to(weights.dtype)
    return aggregate(call.index, h, weights), weights


def _finish_attention(
    conv: Any, out: Tensor, h_dst: Tensor, weights: Tensor | None, bias: Tensor | None
) -> Tensor | tuple[Tensor, Tensor]:
    if conv.res_fc is not None:
        out = out + conv.res_fc(h_dst).view(len(h_dst), -1, conv._out_feats)
    out = out if bias is None else out + bias.view(1, conv._num_heads, conv._out_feats)
    if bias is None and conv.res_fc is None:
        out = out.clone()  # the operator's gradient needs its result as it is; callers may change theirs in place
    out = conv.activation(out) if conv.activation else out
    return out if weights is None else (out, weights.unsqueeze(-1).to(out.dtype))


def _gat_conv(
    layer: Denoised, call: Call, feat: Any, edge_weight: Tensor | None = None, get_attention: bool = False
) -> Any:
    conv: Any = layer.conv
    call.check_in_degrees(conv)
    to_src, to_dst = (conv.fc_src, conv.fc_dst) if hasattr(conv, "fc_src") else (conv.fc, conv.fc)
    h_src, h_dst = call.dropped(conv, feat)

    def score_map(linear: Any, attn: Tensor) -> Tensor:
        """From features straight to scores, [heads, F_in]: heads numbers a node instead of heads x F_out."""
        return (linear.weight.unflatten(0, attn.shape[1:]) * attn[0][..., None]).sum(1)

    to_el, to_er = score_map(to_src, conv.attn_l), score_map(to_dst, conv.attn_r)
    if isinstance(feat, tuple):
        (src, el), (er,) = call.maps(h_src, to_src, to_el), call.maps(h_dst, to_er)
    else:
        src, both = call.maps(h_src, to_src, torch.cat([to_el, to_er]))
        el, er = both.chunk(2, 1)
    src, er = src.unflatten(1, (conv._num_heads, conv._out_feats)), er[: len(h_dst)]

    def scores(rows: Tensor, z: Tensor | None, **options: Any) -> Any:
        return attention(call.index, rows, el, er, z, conv.leaky_relu.negative_slope, **options)

    out, weights = _attend(layer, call, src, scores, edge_weight, get_attention)
    has_bias = getattr(conv, "has_explicit_bias", conv.bias is not None)
    return _finish_attention(conv, out, h_dst, weights if get_attention else None, conv.bias if has_bias else None)


def _gatv2_conv(layer: Denoised, call: Call, feat: Any, get_attention: bool = False) -> Any:
    conv: Any = layer.conv
    call.check_in_degrees(conv)
    h_src, h_dst = call.dropped(conv, feat)
    if isinstance(feat, tuple):
        src, dst = call.maps(h_src, conv.fc_src)[0], call.maps(h_dst, conv.fc_dst)[0]
    else:
        made = call.maps(h_src, *([conv.fc_src] if conv.share_weights else [conv.fc_src, conv.fc_dst]))
        src, dst = made[0], made[-1][: len(h_dst)]
    src, dst = (x.unflatten(1, (conv._num_heads, conv._out_feats)) for x in (src, dst))

    def scores(rows: Tensor, z: Tensor | None, **options: Any) -> Any:
        slope = conv.leaky_relu.negative_slope
        return attention_v2(call.index, rows, src, dst, conv.attn[0], z, slope, **options)

    out, weights = _attend(layer, call, src, scores, None, get_attention)
    return _finish_attention(conv, out, h_dst, weights if get_attention else None, None)


def _gin_conv(layer: Denoised, call: Call, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
    conv: Any = layer.conv
    h, h_self = pair_of(call.graph, feat)
    linear, after = _first_of(conv.apply_func)
    if linear is not None and conv._aggregator_type != "max" and linear.in_features > linear.out_features:
        rows = call.maps(h, linear.weight)[0]  # the fewer numbers to sum
        rows_self = call.maps(h_self, linear.weight)[0] if isinstance(feat, tuple) else rows[: len(h_self)]
    else:
        linear, after, rows, rows_self = None, conv.apply_func, h, h_self
    if conv._aggregator_type == "max":
        neighbours = maximum(call.index, rows, call.gates(h, edge_weight))
    elif conv._aggregator_type == "mean":
        neighbours = call.sum(rows, call.normalized(h, "mean", layer.floor, edge_weight))
    else:
        neighbours = call.sum(rows, call.gates(h, edge_weight))
    out = (1 + conv.eps) * rows_self + neighbours
    out = out if linear is None or linear.bias is None else out + linear.bias
    out = out if after is None else after(out)
    return out if conv.activation is None else conv.activation(out)


def _first_of(func: Any) -> tuple[nn.Linear | None, Any]:
    """The linear map with which a function begins, and what follows it; none where something else is first."""
    if isinstance(func, nn.Module) and _is_plain(func):
        return func, None  # type: ignore[return-value]
    if type(func) is nn.Sequential and len(func) and _is_plain(func[0]) and not _has_hooks(func):
        return func[0], func[1:]  # type: ignore[return-value]
    return None, func


def _weighted(layer: Denoised, call: Call, feat: Any, *args: Any, **kwargs: Any) -> Any:
    """Any convolution that takes edge weights. It gets a graph of the kept edges: DGL's own normalisation of weights
    refuses zeros, and an error inside must leave no trace on the caller's graph."""
    conv: Any = layer.conv
    g, kept = call.kept()
    bound = inspect.signature(conv.forward).bind(g, feat, *args, **kwargs)
    like = feat[0] if isinstance(feat, tuple) else feat
    weights = call.gates(like, bound.arguments.get("edge_weight")).to(like.dtype)
    bound.arguments["edge_weight"] = weights[kept]
    if not hasattr(conv, "_allow_zero_in_degree"):
        return conv(*bound.args, **bound.kwargs)
    call.check_in_degrees(conv)  # of the whole graph; nodes that have lost their edges are no error
    allowed, conv._allow_zero_in_degree = conv._allow_zero_in_degree, True
    try:
        return conv(*bound.args, **bound.kwargs)
    finally:
        conv._allow_zero_in_degree = allowed


_LAYERS: dict[Any, Callable[..., Any]] = {
    dgl.nn.GraphConv.forward: _graph_conv,
    dgl.nn.SAGEConv.forward: _sage_conv,
    dgl.nn.GATConv.forward: _gat_conv,
    dgl.nn.GATv2Conv.forward: _gatv2_conv,
    dgl.nn.GINConv.forward: _gin_conv,
}


def _layer_of(conv: nn.Module) -> Callable[..., Any]:
    return _LAYERS.get(type(conv).forward, _weighted)  # a subclass with a forward of its own is not taken for its base


def _why_not(conv: nn.Module) -> str:
    """Why a module cannot be denoised; empty where it can."""
    if isinstance(conv, Denoised):
        return "it is denoised already"
    takes = inspect.signature(conv.forward).parameters
    if _layer_of(conv) is not _weighted or "edge_weight" in takes:
        return ""
    return "its forward takes no edge_weight, so there is no place for the gates"


def _in_feats(conv: nn.Module) -> int | tuple[int, int] | None:
    """Size of a convolution's input, where it is known."""
    for names in (("_in_src_feats", "_in_dst_feats"), ("_in_src_node_feats", "_in_dst_node_feats")):
        if hasattr(conv, names[0]):
            src, dst = (getattr(conv, name) for name in names)
            return src if src == dst else (src, dst)
    if isinstance(getattr(conv, "_in_feats", None), int):
        return conv._in_feats  # type: ignore[return-value]
    first = next((m for m in conv.modules() if isinstance(m, nn.Linear)), None)  # GIN's own MLP, SGConv's layer
    return None if first is None else first.in_features


def denoise(
    model: nn.Module, make_gate: Callable[[Any], nn.Module] = EdgeGate, *, skip: Iterable[str] = ()
) -> nn.Module:
    """Puts a gate of its own into every DGL convolution of a model, in place; parameters are kept.

    Parameters
    ----------
    model : torch.nn.Module
        Any module, or a convolution itself.
    make_gate : callable
        Makes a gate from the size of a convolution's input features. Default: :class:`EdgeGate`.
    skip : iterable of str
        Names of convolutions to leave as they are, as ``model.named_modules()`` has them.

    Returns
    -------
    torch.nn.Module
        The model; for a convolution its :class:`Denoised` twin. What was wrapped is logged, by name, to the logger
        ``dgl_ptdnet`` at level INFO.

    Raises
    ------
    ValueError
        Where the model has no convolution, or one that cannot be denoised and is not skipped; it is named with the
        reason, and the model is left as it was.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> model = torch.nn.ModuleList([dgl.nn.GraphConv(8, 16), dgl.nn.SAGEConv(16, 4, "mean")])
    >>> model = ptd.denoise(model)
    >>> [type(layer).__name__ for layer in model]
    ['Denoised', 'Denoised']
    >>> model = ptd.denoise(dgl.nn.GATConv(8, 4, 2), lambda size: ptd.EdgeGate(size, hidden=16, symmetric=True))
    """
    skip = set(skip)
    found, refused = [], []
    for name, module in _convolutions(model, ""):
        if name in skip:
            skip.discard(name)
            continue
        reason = _why_not(module)
        if not reason and _in_feats(module) is None:
            reason = "the size of its input is not known: wrap it yourself with Denoised(conv, EdgeGate(size))"
        if reason:
            refused.append(f"{name or 'the model'} ({type(module).__name__}): {reason}")
        else:
            found.append((name, module))
    if skip:
        raise ValueError(f"skip names no convolution of the model: {', '.join(sorted(skip))}")
    if refused:
        raise ValueError("cannot denoise " + "; ".join(refused) + ". Name it in skip to leave it as it is")
    if not found:
        raise ValueError("the model has no DGL convolution to denoise")
    wrapped: dict[int, Denoised] = {}  # a module that is used twice keeps one gate
    for name, module in found:
        if id(module) not in wrapped:
            device = next((p.device for p in module.parameters()), torch.device("cpu"))
            wrapped[id(module)] = Denoised(module, make_gate(_in_feats(module)).to(device)).train(module.training)
        log.info("denoised %s (%s)", name or "the model", type(module).__name__)
        if not name:
            return wrapped[id(module)]
        parent, _, child = name.rpartition(".")
        model.get_submodule(parent)._modules[child] = wrapped[id(module)]
    for module in model.modules():
        if isinstance(module, dgl.nn.HeteroGraphConv):  # it calls its layers from a dictionary of its own
            module.mod_dict = {etype: wrapped.get(id(conv), conv) for etype, conv in module.mod_dict.items()}
    return model


def _convolutions(module: nn.Module, name: str) -> Iterable[tuple[str, nn.Module]]:
    """Those of DGL, and of classes that stem from its; with every name that they have. Not inside of others."""
    if isinstance(module, Denoised):
        return
    if any(base.__module__.startswith("dgl.nn.pytorch.conv") for base in type(module).__mro__):
        yield name, module
        return
    for child_name, child in module._modules.items():
        if child is not None:
            yield from _convolutions(child, f"{name}.{child_name}" if name else child_name)

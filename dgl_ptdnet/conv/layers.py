"""DGL's GraphConv, SAGEConv, GATConv, GATv2Conv and GINConv on the gated kernels.

Each function computes what the ``forward`` of its class computes, with every message weighed by a gate. It reads the
convolution's parameters, also private attributes; docs/architecture.md lists them.
"""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import Tensor, nn

from .._dgl import dgl
from ..graph import split_features
from ..ops import aggregate, attention, attention_v2, degrees, maximum
from .call import Call, Messages, has_hooks, is_plain, mapped


def _graph_conv(
    layer: Any, call: Call, feat: Any, weight: Tensor | None = None, edge_weight: Tensor | None = None
) -> Tensor:
    conv: Any = layer.conv
    call.check_in_degrees(conv)
    if weight is not None and conv.weight is not None:
        raise dgl.DGLError("weight was given, but the layer has its own: make it with weight=False")
    weight = conv.weight if weight is None else weight
    h, _ = split_features(call.graph, feat)
    map_first = weight is not None and conv._in_feats > conv._out_feats  # then there are fewer numbers to sum
    made, messages = call.begin(h, *([weight.T] if map_first else []))
    out = messages.sum(made[0] if made else h, messages.normalized(h, conv._norm, layer.floor, edge_weight))
    out = out if weight is None or map_first else mapped(out, weight.T)[0]
    out = out if conv.bias is None else out + conv.bias
    return out if conv._activation is None else conv._activation(out)


def _sage_conv(layer: Any, call: Call, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
    conv: Any = layer.conv
    h, h_self = call.dropped(conv)
    kind = conv._aggre_type
    map_first = kind in ("mean", "gcn") and conv._in_src_feats > conv._out_feats  # then there are fewer numbers to sum
    of_self = [conv.fc_self] if kind != "gcn" and h_self is h else []
    made, messages = call.begin(h, *of_self, *([conv.fc_neigh] if map_first else []))
    rows = made.pop() if map_first else h
    if kind == "mean":
        neighbours = messages.sum(rows, messages.normalized(h, "mean", layer.floor, edge_weight))
    elif kind == "gcn":
        if not map_first:
            own = h_self
        elif isinstance(feat, tuple):
            own = mapped(h_self, conv.fc_neigh)[0]
        else:
            own = rows[: len(h_self)]
        total = messages.sum(rows, messages.weights(h, edge_weight)) + own
        neighbours = total / (degrees(call.index, messages.weights(h)) + 1).to(total.dtype)[:, None]
    elif kind == "pool":
        neighbours = maximum(call.index, torch.relu(conv.fc_pool(h)), messages.weights(h, edge_weight))
    else:
        neighbours = _lstm(conv, messages, h, messages.weights(h, edge_weight))
    neighbours = neighbours if map_first else mapped(neighbours, conv.fc_neigh)[0]
    if kind == "gcn":
        out = neighbours if conv.bias is None else neighbours + conv.bias
    else:
        out = (made.pop() if made else mapped(h_self, conv.fc_self)[0]) + neighbours
    out = out if conv.activation is None else conv.activation(out)
    return out if conv.norm is None else conv.norm(out)


def _lstm(conv: Any, messages: Messages, h: Tensor, weights: Tensor) -> Tensor:
    """An LSTM over the messages of open edges. A sequence has no sum to fold gates into: DGL gathers the messages."""
    g, chosen = messages.open_edges()
    if g.num_edges() == 0:
        return h.new_zeros(messages.index.num_dst, conv._in_src_feats)
    g.srcdata["h"], g.edata["z"] = h, weights[chosen].to(h.dtype)[:, None]
    g.update_all(dgl.function.u_mul_e("h", "z", "m"), conv._lstm_reducer)
    return g.dstdata["neigh"]


def _attend(
    layer: Any,
    messages: Messages,
    h: Tensor,
    scores: Callable[..., Any],
    edge_weight: Tensor | None,
    get_attention: bool,
) -> tuple[Tensor, Tensor | None]:
    """The gated sums of an attention layer, and its attention weights where they are asked for.

    ``scores(rows, z, **options)`` is an attention operator that has its scores already.
    """
    conv: Any = layer.conv
    z = messages.weights(h)
    if not layer.after_softmax and edge_weight is None and not (conv.training and conv.attn_drop.p > 0):
        return scores(h, z, return_weights=True) if get_attention else (scores(h, z), None)
    gate_inside = None if layer.after_softmax else z
    # Weights that are changed after the softmax: one pass for them alone, one for the sum.
    _, weights = scores(h.new_zeros(len(h), h.shape[1], 1), gate_inside, return_weights=True)
    weights = conv.attn_drop(weights)
    if layer.after_softmax:
        weights = weights * z[:, None]
    if edge_weight is not None:
        weights = weights * messages.checked(edge_weight).to(weights.dtype)[:, None]
    return aggregate(messages.index, h, weights), weights


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


def _gat_conv(layer: Any, call: Call, feat: Any, edge_weight: Tensor | None = None, get_attention: bool = False) -> Any:
    conv: Any = layer.conv
    call.check_in_degrees(conv)
    to_src, to_dst = (conv.fc_src, conv.fc_dst) if hasattr(conv, "fc_src") else (conv.fc, conv.fc)
    h_src, h_dst = call.dropped(conv)

    def score_map(linear: Any, attn: Tensor) -> Tensor:
        """From features straight to scores, [heads, F_in]: heads numbers a node instead of heads x F_out."""
        return (linear.weight.unflatten(0, attn.shape[1:]) * attn[0][..., None]).sum(1)

    to_el, to_er = score_map(to_src, conv.attn_l), score_map(to_dst, conv.attn_r)
    if isinstance(feat, tuple):
        (src, el), messages = call.begin(h_src, to_src, to_el)
        (er,) = mapped(h_dst, to_er)
    else:
        (src, both), messages = call.begin(h_src, to_src, torch.cat([to_el, to_er]))
        el, er = both.chunk(2, 1)
    src, er = src.unflatten(1, (conv._num_heads, conv._out_feats)), er[: len(h_dst)]

    def scores(rows: Tensor, z: Tensor | None, **options: Any) -> Any:
        return attention(call.index, rows, el, er, z, conv.leaky_relu.negative_slope, **options)

    out, weights = _attend(layer, messages, src, scores, edge_weight, get_attention)
    has_bias = getattr(conv, "has_explicit_bias", conv.bias is not None)
    return _finish_attention(conv, out, h_dst, weights if get_attention else None, conv.bias if has_bias else None)


def _gatv2_conv(layer: Any, call: Call, feat: Any, get_attention: bool = False) -> Any:
    conv: Any = layer.conv
    call.check_in_degrees(conv)
    h_src, h_dst = call.dropped(conv)
    if isinstance(feat, tuple):
        (src,), messages = call.begin(h_src, conv.fc_src)
        (dst,) = mapped(h_dst, conv.fc_dst)
    else:
        made, messages = call.begin(h_src, *([conv.fc_src] if conv.share_weights else [conv.fc_src, conv.fc_dst]))
        src, dst = made[0], made[-1][: len(h_dst)]
    src, dst = (x.unflatten(1, (conv._num_heads, conv._out_feats)) for x in (src, dst))

    def scores(rows: Tensor, z: Tensor | None, **options: Any) -> Any:
        slope = conv.leaky_relu.negative_slope
        return attention_v2(call.index, rows, src, dst, conv.attn[0], z, slope, **options)

    out, weights = _attend(layer, messages, src, scores, None, get_attention)
    return _finish_attention(conv, out, h_dst, weights if get_attention else None, None)


def _gin_conv(layer: Any, call: Call, feat: Any, edge_weight: Tensor | None = None) -> Tensor:
    conv: Any = layer.conv
    h, h_self = split_features(call.graph, feat)
    linear, after = _leading_linear(conv.apply_func)
    if linear is not None and conv._aggregator_type != "max" and linear.in_features > linear.out_features:
        (rows,), messages = call.begin(h, linear.weight)  # then there are fewer numbers to sum
        rows_self = mapped(h_self, linear.weight)[0] if isinstance(feat, tuple) else rows[: len(h_self)]
    else:
        linear, after, rows, rows_self = None, conv.apply_func, h, h_self
        _, messages = call.begin(h)
    if conv._aggregator_type == "max":
        neighbours = maximum(call.index, rows, messages.weights(h, edge_weight))
    elif conv._aggregator_type == "mean":
        neighbours = messages.sum(rows, messages.normalized(h, "mean", layer.floor, edge_weight))
    else:
        neighbours = messages.sum(rows, messages.weights(h, edge_weight))
    out = (1 + conv.eps) * rows_self + neighbours
    out = out if linear is None or linear.bias is None else out + linear.bias
    out = out if after is None else after(out)
    return out if conv.activation is None else conv.activation(out)


def _leading_linear(func: Any) -> tuple[nn.Linear | None, Any]:
    """The linear layer with which a function begins, and what follows it; None where something else is first."""
    if isinstance(func, nn.Module) and is_plain(func):
        return func, None  # type: ignore[return-value]
    if type(func) is nn.Sequential and len(func) and is_plain(func[0]) and not has_hooks(func):
        return func[0], func[1:]  # type: ignore[return-value]
    return None, func


LAYERS: dict[Any, Callable[..., Any]] = {
    dgl.nn.GraphConv.forward: _graph_conv,
    dgl.nn.SAGEConv.forward: _sage_conv,
    dgl.nn.GATConv.forward: _gat_conv,
    dgl.nn.GATv2Conv.forward: _gatv2_conv,
    dgl.nn.GINConv.forward: _gin_conv,
}

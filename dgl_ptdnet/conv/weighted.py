"""Any DGL convolution that takes ``edge_weight``: it gets the gates as those."""

from __future__ import annotations

import inspect
from typing import Any

from .call import Call


def weighted_conv(layer: Any, call: Call, feat: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls the convolution on a graph of the open edges: DGL's own normalisation of weights refuses zeros, and an
    error inside must leave no trace on the caller's graph."""
    conv: Any = layer.conv
    _, messages = call.begin(feat)
    g, chosen = messages.open_edges()
    bound = inspect.signature(conv.forward).bind(g, feat, *args, **kwargs)
    like = feat[0] if isinstance(feat, tuple) else feat
    weights = messages.weights(like, bound.arguments.get("edge_weight")).to(like.dtype)
    bound.arguments["edge_weight"] = weights[chosen]
    if not hasattr(conv, "_allow_zero_in_degree"):
        return conv(*bound.args, **bound.kwargs)
    call.check_in_degrees(conv)  # of the whole graph; nodes that have lost their edges are no error
    allowed, conv._allow_zero_in_degree = conv._allow_zero_in_degree, True
    try:
        return conv(*bound.args, **bound.kwargs)
    finally:
        conv._allow_zero_in_degree = allowed

"""Learned edge dropping for DGL: PTDNet, with the edge gate in one fused kernel."""

from . import reference
from .ops import (
    EdgeIndex,
    aggregate,
    attention,
    attention_v2,
    build_info,
    degrees,
    edge_dot,
    edge_gate,
    maximum,
    normalize,
)

__all__ = [
    "EdgeIndex",
    "aggregate",
    "attention",
    "attention_v2",
    "build_info",
    "degrees",
    "edge_dot",
    "edge_gate",
    "maximum",
    "normalize",
    "reference",
]
__version__ = "0.1.0"

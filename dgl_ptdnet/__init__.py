"""Learned edge dropping for DGL: PTDNet, with the edge gate in one fused kernel."""

from . import reference
from .ops import EdgeIndex, build_info, edge_gate

__all__ = ["EdgeIndex", "build_info", "edge_gate", "reference"]
__version__ = "0.1.0"

"""The operators, on tensors alone: nothing here imports dgl. One file an operator."""

from ._library import build_info
from .edge_gate import edge_gate
from .index import EdgeIndex

__all__ = ["EdgeIndex", "build_info", "edge_gate"]

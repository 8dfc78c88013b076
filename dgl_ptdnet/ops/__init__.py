"""The operators. They take tensors, and nothing here imports dgl. Each operator has a file of its own."""

from ._library import build_info, release_memory
from .aggregate import acc_dtype, aggregate, degrees, edge_dot, maximum, normalize
from .attention import attention, attention_v2, edge_scores
from .common_neighbours import common_neighbours
from .edge_gate import edge_gate
from .index import EdgeIndex, IndexTensors
from .linear import linear_maps
from .uniform import uniform

__all__ = [
    "EdgeIndex",
    "IndexTensors",
    "acc_dtype",
    "aggregate",
    "attention",
    "attention_v2",
    "build_info",
    "common_neighbours",
    "degrees",
    "edge_dot",
    "edge_gate",
    "edge_scores",
    "linear_maps",
    "maximum",
    "normalize",
    "release_memory",
    "uniform",
]

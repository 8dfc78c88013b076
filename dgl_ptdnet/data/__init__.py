"""Graphs to train on: published data sets, files, generated graphs, added noise, held-out edges."""

from .catalog import Row, available, load
from .dataset import Dataset
from .generated import planted, random_graph, synthetic
from .links import EdgeSplit, split_edges
from .noise import add_noise_edges

__all__ = [
    "Dataset",
    "EdgeSplit",
    "Row",
    "add_noise_edges",
    "available",
    "load",
    "planted",
    "random_graph",
    "split_edges",
    "synthetic",
]

"""Graphs for training: published data sets, files, generated graphs, noise edges, held-out edges."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .catalog import load
    from .dataset import Dataset
    from .generated import planted, random_graph, synthetic
    from .links import EdgeSplit, split_edges
    from .names import Row, available
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

__getattr__, __dir__ = lazy(
    __name__,
    {
        "Dataset": "dataset",
        "add_noise_edges": "noise",
        "load": "catalog",
        **dict.fromkeys(("EdgeSplit", "split_edges"), "links"),
        **dict.fromkeys(("Row", "available"), "names"),
        **dict.fromkeys(("planted", "random_graph", "synthetic"), "generated"),
    },
)

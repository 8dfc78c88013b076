"""Generated graphs: the paper's synthetic data, planted partitions, and large ones for benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .dataset import Dataset
from .random_pairs import Floats, draw_pairs, generator
from .undirected import Ints, graph_of_pairs


def synthetic(
    seed: int = 0,
    *,
    same_label: float = 0.5,
    num_pairs: int = 5000,
    class_size: int = 200,
    num_classes: int = 5,
    num_feats: int = 30,
    spread: float = 3.0,
    variance: float = 80.0,
) -> Dataset:
    r"""The paper's synthetic data: nodes with good features have many edges to nodes with other labels.

    Parameters
    ----------
    seed : int
        Equal seeds give equal data. Default: 0.
    same_label : float
        Share of the edges between nodes with equal labels; the paper uses 0.5, 0.6, 0.7 and 0.85.
        Default: 0.5.
    num_pairs : int
        Number of linked pairs, each of two edges. The paper's graph has 4,945, its dense graph more.
        Default: 5000.
    class_size : int
        Mean number of nodes with a label; the numbers are drawn with variance 25. Default: 200.
    num_classes : int
        Number of labels. Default: 5.
    num_feats : int
        Number of features of a node. Default: 30.
    spread : float
        Standard deviation of the labels' centroids. The paper does not state it; with 3, features alone are enough to
        classify about seven nodes out of ten. Default: 3.0.
    variance : float
        Variance of a node's features around its centroid. Default: 80.0.

    Returns
    -------
    Dataset
        One graph, 60/20/20 % of its nodes for training, validation and test.

    Notes
    -----
    A node's quality :math:`q` is 1 for the node nearest to the centroid of its label, and falls to 0 with the rank of
    its distance. An edge from a node goes to a random node with another label with probability :math:`2 (1 - s) q`,
    where :math:`s` is ``same_label`` (for :math:`s < 0.5`: :math:`1 - 2 s (1 - q)`), and otherwise to one with its own
    label; exactly a share :math:`s` of all pairs has equal labels. Features are scaled to mean 0 and variance 1.

    Examples
    --------
    >>> from dgl_ptdnet.data import synthetic
    >>> g = synthetic(same_label=0.7).graph
    >>> u, v = g.edges()
    >>> g.num_edges(), int((g.ndata["label"][u] == g.ndata["label"][v]).sum())
    (10000, 7000)
    """
    if not 0 <= same_label <= 1:
        raise ValueError(f"same_label must be a share from 0 to 1; got {same_label}")
    rng = generator(seed, "synthetic")
    sizes = np.maximum(np.rint(rng.normal(class_size, 5, num_classes)), 1).astype(np.int64)
    label = rng.permutation(np.repeat(np.arange(num_classes), sizes))
    feat, distance = _gaussians(rng, label, num_feats, spread, variance)
    quality = 1 - np.argsort(np.argsort(distance)) / max(1, len(label) - 1)
    other = 2 * (1 - same_label) * quality if same_label >= 0.5 else 1 - 2 * same_label * (1 - quality)
    pairs = _by_label(rng, label, round(same_label * num_pairs), num_pairs, other)
    return _dataset("synthetic", pairs, feat, label, seed)


def planted(
    seed: int = 0,
    *,
    cross: float = 0.21,
    num_pairs: int = 5000,
    num_nodes: int = 1000,
    num_classes: int = 5,
    num_feats: int = 30,
    spread: float = 3.0,
    variance: float = 80.0,
) -> Dataset:
    r"""A planted partition: communities with few edges between them.

    Parameters
    ----------
    seed : int
        Equal seeds give equal data. Default: 0.
    cross : float
        Exact share of the edges between two communities; the paper's graph has 0.21. Default: 0.21.
    num_pairs : int
        Number of linked pairs; each is two edges. Default: 5000.
    num_nodes : int
        Number of nodes, divided among the communities as evenly as possible. Default: 1000.
    num_classes : int
        Number of communities. A node's label is its community. Default: 5.
    num_feats, spread, variance
        Features as in :func:`synthetic`, but independent of the edges. Default: 30, 3.0 and 80.0.

    Returns
    -------
    Dataset
        One graph, 60/20/20 % of its nodes for training, validation and test.

    Examples
    --------
    >>> from dgl_ptdnet.data import planted
    >>> planted(num_nodes=500, num_pairs=2000).graph.num_edges()
    4000
    """
    if not 0 <= cross <= 1:
        raise ValueError(f"cross must be a share from 0 to 1; got {cross}")
    rng = generator(seed, "planted")
    label = rng.permutation(np.arange(num_nodes) % num_classes)
    feat, _ = _gaussians(rng, label, num_feats, spread, variance)
    pairs = _by_label(rng, label, num_pairs - round(cross * num_pairs), num_pairs)
    return _dataset("planted", pairs, feat, label, seed)


def random_graph(
    num_nodes: int,
    num_edges: int,
    num_feats: int = 32,
    num_classes: int = 8,
    seed: int = 0,
    *,
    same_label: float = 0.7,
) -> Dataset:
    r"""A large graph for benchmarks: random edges, most of them between nodes with equal labels.

    Parameters
    ----------
    num_nodes : int
        Number of nodes.
    num_edges : int
        Number of edges, counting both directions of each pair. Must be even.
    num_feats : int
        Number of features of a node: a centroid for each label, plus noise with three times its standard deviation.
        Default: 32.
    num_classes : int
        Number of labels. All are equally likely. Default: 8.
    seed : int
        Equal seeds give equal data. Default: 0.
    same_label : float
        Share of the edges between nodes with equal labels. Default: 0.7.

    Returns
    -------
    Dataset
        One graph, 60/20/20 % of its nodes for training, validation and test.

    Examples
    --------
    >>> from dgl_ptdnet.data import random_graph
    >>> random_graph(1000, 20000).graph.num_edges()
    20000
    """
    if num_edges % 2:
        raise ValueError(f"num_edges must be even, as every edge has its reverse; got {num_edges}")
    rng = generator(seed, "random graph")
    label = rng.integers(num_classes, size=num_nodes)
    feat = rng.standard_normal((num_nodes, num_feats), np.float32)
    feat *= 3
    feat += rng.standard_normal((num_classes, num_feats), np.float32)[label]
    pairs = _by_label(rng, label, round(same_label * (num_edges // 2)), num_edges // 2)
    return _dataset("random", pairs, feat, label, seed)


def _gaussians(
    rng: np.random.Generator, label: Ints, num_feats: int, spread: float, variance: float
) -> tuple[Floats, Floats]:
    """Scaled features around the centroids of the labels, and their distances from the centroids before scaling."""
    centroids = rng.normal(0, spread, (int(label.max()) + 1, num_feats))
    noise = rng.normal(0, variance**0.5, (len(label), num_feats))
    feat = centroids[label] + noise
    return (feat - feat.mean(0)) / np.maximum(feat.std(0), 1e-12), np.linalg.norm(noise, axis=1)


def _by_label(
    rng: np.random.Generator, label: Ints, same: int, total: int, other: Floats | None = None
) -> tuple[Ints, Ints]:
    """``total`` pairs, of which ``same`` have equal labels. A node's edges lead to other labels in proportion to its
    number in ``other``."""
    inside = draw_pairs(rng, same, label, same=True, first=None if other is None else 1 - other)
    outside = draw_pairs(rng, total - same, label, first=other)
    return np.concatenate([inside[0], outside[0]]), np.concatenate([inside[1], outside[1]])


def _dataset(name: str, pairs: tuple[Ints, Ints], feat: NDArray[Any], label: Ints, seed: int) -> Dataset:
    g = graph_of_pairs(*pairs, len(label))
    g.ndata["feat"], g.ndata["label"] = torch.from_numpy(feat), torch.from_numpy(label)
    return Dataset.from_graphs(g, name=name, seed=seed)

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
    r"""The paper's synthetic data: nodes with good features have many edges to other labels.

    Parameters
    ----------
    seed : int
        Equal seeds give equal data. Default: 0.
    same_label : float
        Share of the edges that join nodes of the same label; the paper has 0.5, 0.6, 0.7 and 0.85.
        Default: 0.5.
    num_pairs : int
        Number of linked pairs; each is two edges. The paper's graph has 4,945, its dense one more.
        Default: 5000.
    class_size : int
        Mean number of nodes of a label; the numbers are drawn with variance 25. Default: 200.
    num_classes : int
        Number of labels. Default: 5.
    num_feats : int
        Number of features of a node. Default: 30.
    spread : float
        Standard deviation of the labels' centroids. The paper does not state it; with 3 the features alone tell about
        seven nodes out of ten. Default: 3.0.
    variance : float
        Variance of a node's features around its centroid. Default: 80.0.

    Returns
    -------
    Dataset
        One graph, 60/20/20 % of its nodes for training, validation and test.

    Notes
    -----
    A node's quality :math:`q` falls by rank from 1, for the node nearest to the centroid of its label, to 0. An edge
    that a node starts goes to a random node of another label with probability :math:`2 (1 - s) q`, where :math:`s` is
    ``same_label`` (for :math:`s < 0.5`: :math:`1 - 2 s (1 - q)`), and else to a random one of its own; exactly
    :math:`s` of all pairs have equal labels. Features are then scaled to mean 0 and variance 1.

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
        Share of the edges that join two communities, exactly; 0.21 is that of the paper's graph. Default: 0.21.
    num_pairs : int
        Number of linked pairs; each is two edges. Default: 5000.
    num_nodes : int
        Number of nodes, divided among the communities as evenly as can be. Default: 1000.
    num_classes : int
        Number of communities; a node's label is its community. Default: 5.
    num_feats, spread, variance
        Features as those of :func:`synthetic`, here without regard to the edges. Default: 30, 3.0 and 80.0.

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
    r"""A large graph for benchmarks: random edges, most of them between nodes of the same label.

    Parameters
    ----------
    num_nodes : int
        Number of nodes.
    num_edges : int
        Number of edges, both directions of each pair counted: an even number.
    num_feats : int
        Number of features of a node: a centroid for each label, plus noise that is three times as wide.
        Default: 32.
    num_classes : int
        Number of labels, equally many nodes each. Default: 8.
    seed : int
        Equal seeds give equal data. Default: 0.
    same_label : float
        Share of the edges that join nodes of the same label. Default: 0.7.

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
    """Features around the centroids of the labels, scaled, and their distances from these before that."""
    centroids = rng.normal(0, spread, (int(label.max()) + 1, num_feats))
    noise = rng.normal(0, variance**0.5, (len(label), num_feats))
    feat = centroids[label] + noise
    return (feat - feat.mean(0)) / np.maximum(feat.std(0), 1e-12), np.linalg.norm(noise, axis=1)


def _by_label(
    rng: np.random.Generator, label: Ints, same: int, total: int, other: Floats | None = None
) -> tuple[Ints, Ints]:
    """``same`` pairs of equal labels and as many others as make ``total``. The chance that an edge which a node starts
    leads to another label goes with ``other``."""
    inside = draw_pairs(rng, same, label, same=True, first=None if other is None else 1 - other)
    outside = draw_pairs(rng, total - same, label, first=other)
    return np.concatenate([inside[0], outside[0]]), np.concatenate([inside[1], outside[1]])


def _dataset(name: str, pairs: tuple[Ints, Ints], feat: NDArray[Any], label: Ints, seed: int) -> Dataset:
    g = graph_of_pairs(*pairs, len(label))
    g.ndata["feat"], g.ndata["label"] = torch.from_numpy(feat), torch.from_numpy(label)
    return Dataset.from_graphs(g, name=name, seed=seed)

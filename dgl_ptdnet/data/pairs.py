"""Unordered pairs of nodes: what a graph links, and random ones that it does not."""

from __future__ import annotations

import zlib

import dgl
import numpy as np
import torch
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Random numbers for one purpose: equal seeds for two purposes give unrelated numbers."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


def sorted_unique(keys: Ints) -> Ints:
    """As ``numpy.unique``, which is fifteen times slower since it hashes."""
    keys = np.sort(keys)
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


def pair_keys(u: Ints, v: Ints, num_nodes: int) -> Ints:
    """A number for each unordered pair: min * num_nodes + max."""
    return np.minimum(u, v) * num_nodes + np.maximum(u, v)


def linked_pairs(g: dgl.DGLGraph) -> Ints:
    """The sorted keys of the pairs of different nodes that an edge joins, in either direction."""
    u, v = (x.cpu().numpy().astype(np.int64) for x in g.edges())
    apart = u != v
    return sorted_unique(pair_keys(u[apart], v[apart], g.num_nodes()))


def graph_of_pairs(u: Ints, v: Ints, num_nodes: int) -> dgl.DGLGraph:
    """The graph that has both directions of every pair: first all of u -> v, then all of v -> u."""
    src, dst = torch.from_numpy(u), torch.from_numpy(v)
    return dgl.graph((torch.cat([src, dst]), torch.cat([dst, src])), num_nodes=num_nodes)


def undirected(src: Ints, dst: Ints, num_nodes: int) -> dgl.DGLGraph:
    """The graph with both directions of every given edge, each once, ordered by source, then destination."""
    keys = sorted_unique(np.concatenate([src * num_nodes + dst, dst * num_nodes + src]))
    return dgl.graph((torch.from_numpy(keys // num_nodes), torch.from_numpy(keys % num_nodes)), num_nodes=num_nodes)


def _missing(keys: Ints, sorted_keys: Ints) -> NDArray[np.bool_]:
    if not len(sorted_keys):
        return np.ones(len(keys), bool)
    return sorted_keys[np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)] != keys


def _weighted(rng: np.random.Generator, weights: Floats | Ints, n: int) -> Ints:
    if weights.min() == weights.max():
        return rng.integers(len(weights), size=n)
    ends = np.cumsum(weights, dtype=np.float64)
    return np.searchsorted(ends[:-1], rng.random(n) * ends[-1], side="right")


def draw_pairs(
    rng: np.random.Generator,
    count: int,
    labels: Ints,
    *,
    same: bool = False,
    taken: Ints | None = None,
    first: Floats | None = None,
    second: Floats | None = None,
) -> tuple[Ints, Ints]:
    """Draws different pairs of nodes, one after another, none of them taken.

    Parameters
    ----------
    rng : numpy.random.Generator
        Where the random numbers come from.
    count : int
        How many pairs.
    labels : numpy.ndarray
        :math:`(N,)`, from 0. The nodes of a pair have different labels; with ``numpy.arange(N)`` they are any two.
    same : bool
        The nodes of a pair have the same label instead.
    taken : numpy.ndarray, optional
        Sorted keys of pairs that are not to be drawn.
    first : numpy.ndarray, optional
        :math:`(N,)`: how likely each node is as the first of a pair. By default all pairs are equally likely.
    second : numpy.ndarray, optional
        :math:`(N,)`: how likely each node is as the second. By default all that may join the first are.

    Returns
    -------
    tuple[numpy.ndarray, numpy.ndarray]
        The smaller and the larger node of each pair, :math:`(count,)`, in the order drawn.
    """
    num_nodes = len(labels)
    taken = np.empty(0, np.int64) if taken is None else taken
    sizes = np.bincount(labels, minlength=1)
    start = np.cumsum(sizes) - sizes
    by_label = np.argsort(labels, kind="stable")
    place = np.empty(num_nodes, np.int64)
    place[by_label] = np.arange(num_nodes)
    partners = sizes[labels] - 1 if same else num_nodes - sizes[labels]

    def partner(u: Ints, k: Ints) -> Ints:
        """The k-th node that may join u: positions in by_label without u itself, or without all of its label."""
        at = start[labels[u]]
        if same:
            return by_label[at + k + (at + k >= place[u])]
        return by_label[k + np.where(k >= at, sizes[labels[u]], 0)]

    def permitted(u: Ints, v: Ints) -> NDArray[np.bool_]:
        return (u != v) & ((labels[u] == labels[v]) == same)

    used = int(permitted(taken // max(1, num_nodes), taken % max(1, num_nodes)).sum())
    free = int(partners.sum()) // 2 - used
    if count > free:
        which = " of the same label" if same else " of different labels" if len(sizes) < num_nodes else ""
        raise ValueError(f"{count:,} unlinked pairs of nodes{which} are asked for, but there are only {free:,}")
    if first is not None:
        first = np.where(partners > 0, first, 0)

    if partners.sum() <= 4 * (count + used):  # few would be left to find by chance: list them all
        u = np.repeat(np.arange(num_nodes), partners)
        v = partner(u, np.arange(len(u)) - np.repeat(np.cumsum(partners) - partners, partners))
        u, v = u[u < v], v[u < v]
        untaken = _missing(pair_keys(u, v, num_nodes), taken)
        u, v = u[untaken], v[untaken]
        if first is None:
            chosen = rng.permutation(len(u))[:count]
        else:
            likely = first / np.maximum(partners, 1)
            weights = likely[u] + likely[v] if second is None else first[u] * second[v] + first[v] * second[u]
            with np.errstate(divide="ignore"):  # the smallest of these numbers are draws by weight, one after another
                chosen = np.argsort(rng.exponential(size=len(u)) / weights, kind="stable")[:count]
        return u[chosen], v[chosen]

    drawn: list[Ints] = []
    missing, rate = count, 1.0
    while missing:
        n = min(int(1.1 * missing / rate) + 16, 1 << 24)
        u = _weighted(rng, partners if first is None else first, n)
        v = partner(u, rng.integers(partners[u])) if second is None else _weighted(rng, second, n)
        keys = pair_keys(u, v, num_nodes)[permitted(u, v)]
        keys, order = np.unique(keys, return_index=True)
        new = _missing(keys, taken)  # sorted keys are looked up ten times faster
        keys = keys[new][np.argsort(order[new])][:missing]
        drawn.append(keys)
        taken = np.sort(np.concatenate([taken, keys]))
        missing, rate = missing - len(keys), max(len(keys) / n, 1e-3)
    keys = np.concatenate(drawn) if drawn else np.empty(0, np.int64)
    return keys // max(1, num_nodes), keys % max(1, num_nodes)

"""Random pairs of nodes that have no edge."""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from .undirected import Ints, ends_of_pairs, ids_of_pairs

Floats = NDArray[np.float64]


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A source of random numbers for one purpose: with the same seed, two purposes get unrelated numbers."""
    return np.random.default_rng([seed, zlib.crc32(purpose.encode())])


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
    """Draws different random pairs of nodes that are not taken.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of random numbers.
    count : int
        Number of pairs.
    labels : numpy.ndarray
        :math:`(N,)`, from 0. The nodes of a pair have different labels; with ``numpy.arange(N)`` any two are allowed.
    same : bool
        Draw nodes with equal labels instead. Default: False.
    taken : numpy.ndarray, optional
        Sorted ids of pairs that are excluded. Default: none.
    first : numpy.ndarray, optional
        :math:`(N,)`: the weight of each node as the first of a pair. Default: all pairs are equally likely.
    second : numpy.ndarray, optional
        :math:`(N,)`: the weight of each node as the second. Default: all allowed partners are equally likely.

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
        """The k-th allowed partner of u: positions in by_label without u itself, or without all of its label."""
        at = start[labels[u]]
        if same:
            return by_label[at + k + (at + k >= place[u])]
        return by_label[k + np.where(k >= at, sizes[labels[u]], 0)]

    def permitted(u: Ints, v: Ints) -> NDArray[np.bool_]:
        return (u != v) & ((labels[u] == labels[v]) == same)

    used = int(permitted(*ends_of_pairs(taken)).sum())
    free = int(partners.sum()) // 2 - used
    if count > free:
        which = " of the same label" if same else " of different labels" if len(sizes) < num_nodes else ""
        raise ValueError(f"{count:,} pairs of nodes{which} without an edge are needed, but there are only {free:,}")
    if first is not None:
        first = np.where(partners > 0, first, 0)

    if partners.sum() <= 4 * (count + used):  # too few are left to be found by chance: list them all
        u = np.repeat(np.arange(num_nodes), partners)
        v = partner(u, np.arange(len(u)) - np.repeat(np.cumsum(partners) - partners, partners))
        u, v = u[u < v], v[u < v]
        untaken = _missing(ids_of_pairs(u, v), taken)
        u, v = u[untaken], v[untaken]
        if first is None:
            chosen = rng.permutation(len(u))[:count]
        else:
            likely = first / np.maximum(partners, 1)
            weights = likely[u] + likely[v] if second is None else first[u] * second[v] + first[v] * second[u]
            with np.errstate(divide="ignore"):  # the smallest are a weighted sample without replacement
                chosen = np.argsort(rng.exponential(size=len(u)) / weights, kind="stable")[:count]
        return u[chosen], v[chosen]

    drawn: list[Ints] = []
    missing, rate = count, 1.0
    while missing:
        n = min(int(1.1 * missing / rate) + 16, 1 << 24)
        u = _weighted(rng, partners if first is None else first, n)
        v = partner(u, rng.integers(partners[u])) if second is None else _weighted(rng, second, n)
        keys = ids_of_pairs(u, v)[permitted(u, v)]
        keys, order = np.unique(keys, return_index=True)
        new = _missing(keys, taken)  # sorted keys are looked up ten times faster
        keys = keys[new][np.argsort(order[new])][:missing]
        drawn.append(keys)
        taken = np.sort(np.concatenate([taken, keys]))
        missing, rate = missing - len(keys), max(len(keys) / n, 1e-3)
    keys = np.concatenate(drawn) if drawn else np.empty(0, np.int64)
    return ends_of_pairs(keys)

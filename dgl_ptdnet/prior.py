"""How likely each edge of a graph is real, from features and structure alone: no labels, no training task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .graph import edges_of
from .ops import EdgeIndex, aggregate, common_neighbours, edge_dot
from .threads import torch_threads

CAP = 0.99  # no edge is surer than this, nor less sure than 1 - CAP
_ROUNDS = 3
_UNITS = 16
_FIRST_STEPS, _STEPS = 60, 15
_FIT_ROWS = 1 << 13  # of edges and of planted pairs: more of them do not change a model of four numbers
_EXTREME = 30.0  # of a log-ratio: e^30 is as good as infinite, and finite


@dataclass(frozen=True)
class Prior:
    """What :func:`density_prior` returns.

    Attributes
    ----------
    real : torch.Tensor
        The probability that each edge is real, :math:`(E,)` float32 in [0.01, 0.99], in the order of the graph's
        edges.
    noise_share : float
        The estimated share of noise among the edges, self-loops not counted.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> ptd.Prior(torch.tensor([0.5, 0.99]), 0.25).logit
    tensor([0.0000, 4.5951])
    """

    real: Tensor
    noise_share: float

    @property
    def logit(self) -> Tensor:
        """The log-odds of ``real``, :math:`(E,)`: a bias for gates."""
        return torch.logit(self.real)


@torch.inference_mode(False)  # the classifier learns, whatever the mode of the caller
@torch.no_grad()
def density_prior(g: Any, x: Tensor, *, seed: int = 0) -> Prior:
    r"""The probability that each edge is real rather than a random pair of nodes.

    A classifier tells the graph's edges from random pairs by four numbers that do not depend on labels. Where edges
    are as dense as random pairs, they are as good as random, and that is what noise is:

    .. math::
        r_e &= \log \frac{p(f_e \mid \text{edge})}{p(f_e \mid \text{random pair})}, \qquad
        \rho = \min_t \frac{P(r \le t \mid \text{edge})}{P(r \le t \mid \text{random pair})} \\
        \pi_e &= 1 - \rho \, e^{-r_e} \quad \text{clipped to } [0.01, 0.99]

    The four numbers of a pair (u, v) are :math:`\cos(x_u, x_v)`,
    :math:`\cos(S_{u \setminus v}, x_v) + \cos(x_u, S_{v \setminus u})`,
    :math:`\cos(S_{u \setminus v}, S_{v \setminus u})` and :math:`\log(1 + \text{common neighbours})`, where
    :math:`S_{u \setminus v}` is the sum of the features of u's neighbours without v.

    Parameters
    ----------
    g : DGLGraph or EdgeIndex
        A graph with one type of nodes and edges. It is taken as undirected: an edge, its reverse and its parallels
        are one, and get one number.
    x : torch.Tensor
        Features of the nodes, :math:`(N, F)`, dense or mostly zeros. Rows of zeros are allowed.
    seed : int
        Seed of the random pairs and of the start of the classifier. Default: 0.

    Returns
    -------
    Prior
        ``real``, :math:`\pi_e` for every edge; ``noise_share``, :math:`\rho`; ``logit``.

    Notes
    -----
    - It assumes noise that joins nodes uniformly at random. Other noise looks real to it.
    - Three rounds: after the first, neighbours count by their :math:`\pi`, in the sums and in the common neighbours,
      so that they are less and less those of noise. For this the random pairs are planted among the edges: a real
      edge, a noise edge and a planted pair alike take part in the sums of others and not in their own, so a noise
      edge stays like a planted pair in every round. They are a quarter of the edges.
    - Columns of x are weighted by log(1 + N / non-zeros), so a rare word counts more than one that every node has.
      Dense columns all weigh the same.
    - Self-loops are left out, and are real (0.99). So is every edge where there is no pair without an edge to compare
      with.
    - The minimum is over the 5 .. 95 % quantiles of the random pairs, each ratio with one standard error more.
    - It is computed on the CPU, whatever the graph's device. A seed gives the same bits for any number of threads.
      Memory is two float64 copies of x; no tensor has a row of features for every edge.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> group = torch.arange(200) // 50                             # four groups of 50 nodes
    >>> x = torch.eye(4)[group] + 0.3 * torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    >>> node, step = torch.arange(200).repeat(3), torch.arange(1, 4).repeat_interleave(200)
    >>> near = group[node] * 50 + (node + step) % 50                # 600 edges inside of them
    >>> far = (torch.arange(200) * 7 + 60) % 200                    # and 200 anywhere
    >>> g = dgl.graph((torch.cat([node, torch.arange(200)]), torch.cat([near, far])))
    >>> prior = ptd.density_prior(g, x)
    >>> prior.real[:600].mean() > 0.9, prior.real[600:].mean() < 0.5
    (tensor(True), tensor(True))
    """
    index = _index(g)
    _check(index, x)
    n, device = index.num_src, index.src.device
    src, dst = index.src.long().cpu(), index.dst.long().cpu()
    proper = (src != dst).nonzero().flatten()
    keys, pair_of_edge = torch.unique(_keys(src[proper], dst[proper], n), return_inverse=True)
    real = torch.full((len(src),), CAP)
    generator = torch.Generator().manual_seed(seed)
    planted = _plant(keys, n, generator)
    if not len(planted):
        return Prior(real.to(device), 0.0)

    is_edge = torch.cat([torch.ones_like(keys, dtype=torch.bool), torch.zeros_like(planted, dtype=torch.bool)])
    keys, order = torch.cat([keys, planted]).sort()
    is_edge = is_edge[order]
    graph, model = _Pairs(keys, x.detach().cpu()), _Classifier(is_edge, generator)
    weight = torch.ones(len(keys), dtype=torch.float64)
    for _ in range(_ROUNDS):
        ratio = model.log_ratio(graph.features(weight))
        share = _noise_share(ratio[is_edge], ratio[~is_edge])
        weight = (1 - share * torch.exp(-ratio)).clamp(1 - CAP, CAP).double()
    real[proper] = weight[is_edge][pair_of_edge].float()
    return Prior(real.to(device), share)


def _index(g: Any) -> EdgeIndex:
    index = g if isinstance(g, EdgeIndex) else edges_of(g).index
    if index.num_src != index.num_dst or not (g is index or (edges_of(g).same_nodes and not g.is_block)):
        raise ValueError(
            "g must be a graph whose edges join nodes of one set. Compute the prior on the whole graph; that of a "
            "block's edges is prior.real[block.edata[dgl.EID]]"
        )
    return index


def _check(index: EdgeIndex, x: Tensor) -> None:
    if not isinstance(x, Tensor) or x.layout != torch.strided or x.is_complex():
        raise TypeError("x must be a dense torch.Tensor of real numbers [N, F]; make one with .to_dense()")
    if x.dim() != 2 or x.shape[1] < 1 or len(x) != index.num_src:
        raise ValueError(f"x must be [N, F] with N = {index.num_src} nodes and F >= 1; got shape {tuple(x.shape)}")
    if not bool(x.isfinite().all()):
        raise ValueError("x has numbers that are not finite: replace them, for example with torch.nan_to_num")


def _keys(u: Tensor, v: Tensor, n: int) -> Tensor:
    """One number for a pair in either direction."""
    return torch.minimum(u, v) * n + torch.maximum(u, v)


def _plant(keys: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Different random pairs of nodes that no edge joins: a quarter of the edges, on small graphs up to as many."""
    wanted = max(len(keys) // 4, min(len(keys), 1000))
    found = keys[:0]
    for _ in range(20):  # a nearly complete graph has too few of them
        if len(found) >= wanted:
            break
        u, v = torch.randint(0, n, (2, 2 * wanted + 16), generator=generator)
        drawn = torch.cat([found, _keys(u, v, n)[u != v]]).unique()
        found = drawn[~torch.isin(drawn, keys, assume_unique=True)]
    return found[torch.randperm(len(found), generator=generator)[:wanted]]


class _Pairs:
    """Pairs of nodes in ascending order of their keys as an undirected graph, and the four numbers of each."""

    def __init__(self, keys: Tensor, x: Tensor) -> None:
        n = len(x)
        self.keys, self.u, self.v = keys, keys // n, keys % n
        self.pairs = EdgeIndex(self.u, self.v, n, n)
        self.both_ways = EdgeIndex(torch.cat([self.u, self.v]), torch.cat([self.v, self.u]), n, n)
        rarity = torch.log1p(n / (x != 0).sum(0).clamp(min=1))
        self.x = functional.normalize(x.double() * rarity, dim=1)
        self.length = self.x.square().sum(1)  # 1, or 0 for a row of zeros
        self.cosine = edge_dot(self.pairs, self.x, self.x)

    def features(self, weight: Tensor) -> Tensor:
        """float32 [pairs, 4], where a neighbour counts by the weight of the pair that joins it."""
        u, v, w = self.u, self.v, weight
        sums = aggregate(self.both_ways, self.x, torch.cat([w, w]))
        along, across = (sums * self.x).sum(1), sums.square().sum(1)
        sum_x, x_sum = edge_dot(self.pairs, sums, self.x), edge_dot(self.pairs, self.x, sums)
        # S without the other end, by algebra: <S_u - w x_v, x_v>, |S_u - w x_v|^2, <S_u - w x_v, S_v - w x_u>
        sum_x_apart, x_sum_apart = sum_x - w * self.length[v], x_sum - w * self.length[u]
        size_u = across[u] - w * (sum_x + sum_x_apart)
        size_v = across[v] - w * (x_sum + x_sum_apart)
        sums_apart = edge_dot(self.pairs, sums, sums) - w * (along[u] + along[v] - w * self.cosine)
        numbers = [
            self.cosine,
            _ratio(sum_x_apart, size_u) + _ratio(x_sum_apart, size_v),
            _ratio(sums_apart, size_u, size_v),
            torch.log1p(common_neighbours(self.both_ways, u, v, torch.cat([w, w]))),
        ]
        return torch.stack(numbers, 1).float()


def _ratio(dot: Tensor, *squares: Tensor) -> Tensor:
    """The dot product over the lengths. A sum of nothing has length 0 but for rounding, and no direction: 0."""
    nothing = torch.stack(squares).amin(0) < 1e-9
    lengths = torch.stack(squares).clamp(min=1e-9).sqrt().prod(0)
    return torch.where(nothing, 0.0, dot / lengths).clamp(-1, 1)


def _noise_share(edges: Tensor, planted: Tensor) -> float:
    """The least share of edges, relative to that of planted pairs, below one of the pairs' 5 .. 95 % quantiles.

    The least of many noisy numbers is too small, on small graphs by far: each is taken with one standard error more.
    """
    edges, planted = edges.sort().values, planted.sort().values
    at = planted[torch.linspace(0.05, 0.95, 91, dtype=torch.float64).mul(len(planted) - 1).long()]
    low_edges, low_planted = (torch.searchsorted(x, at, right=True).double() for x in (edges, planted))
    low_edges += 1
    ratio = (low_edges / len(edges)) / (low_planted / len(planted))
    return min(1.0, float((ratio * (1 + (1 / low_edges + 1 / low_planted).sqrt())).min()))


class _Classifier:
    """Tells edges from planted pairs by a logistic model of linear and tanh units, learned again in every round."""

    def __init__(self, is_edge: Tensor, generator: torch.Generator) -> None:
        groups = [group.nonzero().flatten() for group in (is_edge, ~is_edge)]
        rows = [group[torch.randperm(len(group), generator=generator)[:_FIT_ROWS]] for group in groups]
        self.rows, self.generator = torch.cat(rows), generator
        self.target = is_edge[self.rows].float()
        self.balance = torch.cat([torch.full((len(part),), 0.5 / len(part)) for part in rows])
        self.parameters: list[Tensor] = []

    def log_ratio(self, features: Tensor) -> Tensor:
        """The log-ratio of the densities of edges and of planted pairs, float32 [pairs]."""
        chosen = features[self.rows]
        deviation, mean = torch.std_mean(chosen, 0, correction=0)
        scale = torch.where(deviation > 1e-6, 1 / deviation, 0.0)
        with torch_threads(1):  # matrix products have other bits with another number; the fit is small
            self._fit((chosen - mean) * scale)
            parts = [self._model((part - mean) * scale) for part in features.split(1 << 16)]
        return torch.cat(parts).clamp(-_EXTREME, _EXTREME)

    def _model(self, inputs: Tensor) -> Tensor:
        weight, bias, out, line, constant = self.parameters
        return torch.tanh(inputs @ weight + bias) @ out + inputs @ line + constant

    def _fit(self, inputs: Tensor) -> None:
        steps = _STEPS if self.parameters else _FIRST_STEPS  # a later round starts from the one before
        if not self.parameters:
            width = inputs.shape[1]
            weight, bias = torch.randn(width + 1, _UNITS, generator=self.generator).mul(0.5).split([width, 1])
            start = [weight, bias, torch.zeros(_UNITS), torch.zeros(width), torch.zeros(1)]
            self.parameters = [parameter.clone().requires_grad_() for parameter in start]
        optimizer = torch.optim.LBFGS(self.parameters, max_iter=steps, line_search_fn="strong_wolfe")

        @torch.enable_grad()
        def loss() -> Tensor:
            optimizer.zero_grad()
            value = functional.binary_cross_entropy_with_logits(
                self._model(inputs), self.target, self.balance, reduction="sum"
            )
            value = value + 1e-3 * sum(parameter.square().sum() for parameter in self.parameters[:-1])
            value.backward()
            return value

        optimizer.step(loss)

"""How likely each edge of a graph is real, from features and structure alone: no labels, no training task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import Tensor
from torch.nn import functional

from .graph import edges_of
from .ops import EdgeIndex, aggregate, common_neighbours, edge_dot
from .pairs import pair_ends, pair_ids
from .threads import torch_threads

CAP = 0.99  # probabilities are clipped to [1 - CAP, CAP]
_ROUNDS = 4
_DOUBTING_ROUNDS = 2  # in the first rounds there is no estimate of the noise yet: a guess weighs the neighbours
_DOUBT = 3.0  # later rounds weigh the neighbours as if there were this many times as much noise
_UNITS = 16
_FIRST_STEPS, _STEPS = 60, 15
_FIT_ROWS = 1 << 13  # rows of each kind that the classifier is fitted to: more do not change a model of six numbers
_EXTREME = 30.0  # of a log-ratio: e^30 is as good as infinite, and finite
_STRATA = 10
_LOW = torch.linspace(0.05, 0.7, 14, dtype=torch.float64)  # quantiles of planted pairs below which edges are counted
_SETS, _SETS_SMALL, _SMALL = 2, 4, 1 << 17  # sets of planted pairs; more for graphs of less than _SMALL edges
_EDGE, _UNIFORM, _BY_DEGREE = range(3)


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
    interval : tuple[float, float]
        Two standard errors to both sides of the share, of counting and of the choice of planted pairs. Where noise is
        not spread like the planted pairs, the truth is often outside. Default:
        ``(0.0, 1.0)``, nothing is known.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> ptd.Prior(torch.tensor([0.5, 0.99]), 0.25).logit
    tensor([0.0000, 4.5951])
    """

    real: Tensor
    noise_share: float
    interval: tuple[float, float] = (0.0, 1.0)

    @property
    def logit(self) -> Tensor:
        """The log-odds of ``real``, :math:`(E,)`: a bias for gates."""
        return torch.logit(self.real)


@torch.inference_mode(False)  # the classifier learns, whatever the mode of the caller
@torch.no_grad()
def density_prior(g: Any, x: Tensor, *, seed: int = 0) -> Prior:
    r"""The probability that each edge is real, rather than noise that joins two unrelated nodes.

    Random pairs are planted into the graph, half of them uniform and half with ends drawn in proportion to their
    degree. A classifier tells edges from planted pairs by numbers :math:`f` that do not depend on labels. An edge that
    it cannot tell from planted pairs is likely noise:

    .. math::
        r_e &= \log \frac{p(f_e \mid \text{edge})}{p(f_e \mid \text{planted})}, \qquad
        \lambda_e = \frac{a \, p_{\text{uniform}}(e) + b \, p_{\text{degree}}(e)}{p_{\text{planted}}(e)} \\
        \pi_e &= 1 - \lambda_e \, e^{-r_e} \quad \text{clipped to } [0.01, 0.99]

    The share :math:`a` of uniform noise and the share :math:`b` of noise at hubs are fitted to the number of edges of
    each degree that look least real. The numbers of a pair (u, v) are :math:`\cos(x_u, x_v)`,
    :math:`\cos(S_{u \setminus v}, x_v) + \cos(x_u, S_{v \setminus u})`,
    :math:`\cos(S_{u \setminus v}, S_{v \setminus u})`, :math:`\log(1 + \text{common neighbours})`, and the sum and the
    difference of the log-degrees, where :math:`S_{u \setminus v}` is the sum of the features of u's neighbours without
    v, each weighted by how real it looks.

    Parameters
    ----------
    g : DGLGraph or EdgeIndex
        A graph with one type of nodes and edges, treated as undirected: an edge, its reverse and parallel edges get one
        number.
    x : torch.Tensor
        Features of the nodes, :math:`(N, F)`, dense or mostly zeros. Rows of zeros are allowed.
    seed : int
        Seed of the planted pairs and of the start of the classifier. Default: 0.

    Returns
    -------
    Prior
        ``real``, :math:`\pi_e` for every edge; ``noise_share``, the mean of :math:`1 - \pi_e` before it is clipped;
        ``interval`` of it; ``logit``.

    Notes
    -----
    - It recognises noise that joins nodes uniformly, in proportion to their degree, or as a mixture of both. It
      recognises noise between classes, or at few nodes, as far as that looks like these. Noise between nodes with
      similar features looks real to it.
    - Every pair, real, noise or planted, counts in the sums of other pairs and not in its own. So noise stays
      comparable with planted pairs, whatever the weights of neighbours. Four rounds weigh neighbours as if there were
      three times as much noise as was found: attacks put wrong edges at few nodes, whose sums otherwise look real to
      each other.
    - The result is the mean over four sets of planted pairs; over two for graphs of more than 131,072 edges.
    - Columns of x are weighted by log(1 + N / non-zeros), so a rare word counts more than one that every node has.
      Dense columns all weigh the same.
    - Self-loops get 0.99. So does every edge of a graph without unlinked pairs, where there is nothing to compare with.
    - It is computed on the CPU, whatever the graph's device. A seed gives the same bits for any number of threads.
      Memory is two float64 copies of x and about 300 bytes an edge; no tensor has a row of features for every edge.

    Examples
    --------
    >>> import dgl, torch
    >>> import dgl_ptdnet as ptd
    >>> group = torch.arange(400) // 100                            # four groups of 100 nodes
    >>> x = torch.eye(4)[group] + 0.3 * torch.randn(400, 4, generator=torch.Generator().manual_seed(0))
    >>> node, step = torch.arange(400).repeat(3), torch.arange(1, 4).repeat_interleave(400)
    >>> near = group[node] * 100 + (node + step) % 100              # 1,200 edges inside of them
    >>> far = torch.randint(400, (400,), generator=torch.Generator().manual_seed(1))     # and 400 anywhere
    >>> g = dgl.graph((torch.cat([node, torch.arange(400)]), torch.cat([near, far])))
    >>> prior = ptd.density_prior(g, x)
    >>> prior.real[:1200].mean() > 0.9, prior.real[1200:].mean() < 0.5
    (tensor(True), tensor(True))
    """
    index = _index(g)
    _check(index, x)
    n, device = index.num_src, index.src.device
    src, dst = index.src.long().cpu(), index.dst.long().cpu()
    proper = (src != dst).nonzero().flatten()
    keys, pair_of_edge = torch.unique(pair_ids(src[proper], dst[proper]), return_inverse=True)
    del src, dst
    real = torch.full((index.num_edges,), CAP)
    generator = torch.Generator().manual_seed(seed)
    rows = _unit_rows(x.detach().cpu())
    noise, levels = torch.zeros(len(keys), dtype=torch.float64), []
    sets = _SETS_SMALL if len(keys) < _SMALL else _SETS
    for _ in range(sets):
        planted = _plant(keys, n, generator)
        if bool((planted.kind == _EDGE).all()):
            return Prior(real.to(device), 0.0)
        noise_of_edges, level = _noise(planted, rows, generator)
        noise += noise_of_edges / sets
        levels.append(level)
    real[proper] = (1 - noise).clamp(1 - CAP, CAP)[pair_of_edge].float()
    return Prior(real.to(device), float(noise.mean()), _interval(float(noise.mean()), levels))


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


@dataclass(frozen=True)
class _Planted:
    """Edges and planted pairs in ascending order of their keys."""

    keys: Tensor
    kind: Tensor  # [pairs]: _EDGE, _UNIFORM or _BY_DEGREE
    degree: Tensor  # [N], of edges and uniform pairs together
    uniform: float  # of these, how many are uniform pairs in the mean


def _plant(keys: Tensor, n: int, generator: torch.Generator) -> _Planted:
    """Different random pairs of nodes that no edge joins, of each kind a quarter of the edges, on small graphs more.

    Uniform noise and uniform pairs must be alike in everything but their names. So degrees, and with them the pairs
    that are drawn by degree, are those of edges and uniform pairs together.
    """
    wanted = max(len(keys) // 4, min(len(keys), 1000))

    def draw(taken: Tensor, ends: Callable[[int], Tensor]) -> Tensor:
        found = keys[:0]
        for _ in range(20):  # a nearly complete graph has too few of them
            if len(found) >= wanted:
                break
            u, v = ends(2 * wanted + 16)
            drawn = torch.cat([found, pair_ids(u, v)[u != v]]).unique()
            found = drawn[~torch.isin(drawn, taken, assume_unique=True)]
        return found[torch.randperm(len(found), generator=generator)[:wanted]]

    uniform = draw(keys, lambda count: torch.randint(0, max(n, 1), (2, count), generator=generator))
    taken = torch.cat([keys, uniform])
    degree, mean = _degrees(taken, n), 2 * len(uniform) / max(n, 1)
    stop = _propensity(degree, mean).cumsum(0)

    def by_degree(count: int) -> Tensor:
        place = torch.rand(2, count, generator=generator, dtype=torch.float64) * stop[-1]
        return torch.searchsorted(stop, place, right=True).clamp(max=n - 1)

    found = draw(taken.sort().values, by_degree) if n else keys[:0]
    kinds = [torch.full((len(part),), k) for k, part in enumerate((keys, uniform, found))]
    ordered, order = torch.cat([taken, found]).sort()
    return _Planted(ordered, torch.cat(kinds)[order], degree, mean)


def _degrees(keys: Tensor, n: int) -> Tensor:
    return torch.bincount(torch.cat(pair_ends(keys)), minlength=n)


def _propensity(degree: Tensor, uniform: float) -> Tensor:
    """How often a node is the end of a pair drawn by degree, float64; ``uniform`` pairs a node do not count."""
    return (degree.double() - uniform).clamp(min=0) + 1


def _noise(planted: _Planted, x: Tensor, generator: torch.Generator) -> tuple[Tensor, tuple[float, float]]:
    """The probability that each edge is noise, float64, and the share of noise with its standard error."""
    is_edge = planted.kind == _EDGE
    graph = _Pairs(planted.keys, x)
    whole, by_degrees = (_Classifier(is_edge, generator) for _ in range(2))
    share, ratio = 0.5, torch.zeros(())
    degrees = _pair_degrees(graph, planted, share)
    start = torch.stack([graph.cosine.float(), *_degree_features(degrees)], 1)
    given_degrees = by_degrees.log_ratio(torch.stack(_degree_features(degrees), 1))
    surprise = _Classifier(is_edge, generator).log_ratio(start) - given_degrees
    for turn in range(_ROUNDS):
        if turn < _DOUBTING_ROUNDS:
            weight = torch.sigmoid(2 * surprise - 2)
        else:
            weight = (1 - min(0.9, _DOUBT * share) * torch.exp(-surprise)).clamp(1 - CAP, CAP)
        numbers = graph.features(weight.double())
        if turn:
            degrees = _pair_degrees(graph, planted, share)
            given_degrees = by_degrees.log_ratio(torch.stack(_degree_features(degrees), 1))
        ratio = whole.log_ratio(torch.cat([numbers, torch.stack(_degree_features(degrees), 1)], 1))
        surprise = ratio - given_degrees
        share = _noise_share(surprise[is_edge], surprise[~is_edge])
    density, level = _noise_density(ratio, degrees, planted)
    return (density * torch.exp(-ratio))[is_edge].clamp(max=1), level


def _pair_degrees(graph: _Pairs, planted: _Planted, share: float) -> tuple[Tensor, Tensor, Tensor]:
    """The degrees of both ends without the pair itself, float64, and the density of pairs by degree over uniform ones.

    Nodes drawn by degree have more noise edges than the ends of a noise edge have beside it: one more, if all is noise.
    """
    own = torch.where(planted.kind == _BY_DEGREE, share, 1.0).double()
    u, v = ((planted.degree[ends] - own).clamp(min=0) for ends in (graph.u, graph.v))
    mean = _propensity(planted.degree, planted.uniform).mean()
    ratio = _propensity(u, planted.uniform) / mean * (_propensity(v, planted.uniform) / mean)
    return torch.log1p(u), torch.log1p(v), ratio


def _degree_features(degrees: tuple[Tensor, Tensor, Tensor]) -> list[Tensor]:
    u, v, _ = degrees
    return [(u + v).float(), (u - v).abs().float()]


def _noise_density(
    ratio: Tensor, degrees: tuple[Tensor, Tensor, Tensor], planted: _Planted
) -> tuple[Tensor, tuple[float, float]]:
    """The density of noise over that of planted pairs, float64 [pairs]; the share of noise and its standard error.

    In strata of degree, those pairs are counted that look less real than a quantile of the stratum's planted pairs. If
    none of these edges is real, their counts are a sum of those of both kinds of planted pairs; the quantile is taken
    for which the sum is the least.
    """
    is_edge = planted.kind == _EDGE
    by_degree = degrees[2]
    each = torch.stack([1 / (1 + by_degree), by_degree / (1 + by_degree)])
    if not bool((planted.kind == _BY_DEGREE).any()):
        each = torch.stack([torch.ones_like(by_degree), torch.zeros_like(by_degree)])
    elif bool((planted.kind == _UNIFORM).any()):
        each = 2 * each
    total = degrees[0] + degrees[1]
    bounds = _quantiles(total[is_edge].sort().values, torch.linspace(0, 1, _STRATA + 1, dtype=torch.float64)[1:-1])
    stratum = torch.searchsorted(bounds, total, right=False)
    edges, pairs = int(is_edge.sum()), int((~is_edge).sum())
    everywhere = ratio[~is_edge].sort().values
    edge_counts, pair_counts = [], []  # [strata][quantiles]; [strata][kinds, quantiles]
    pair_number = []
    for k in range(_STRATA):
        here = stratum == k
        own = here & ~is_edge
        values, order = ratio[own].sort()
        at = _quantiles(values if len(values) >= 20 else everywhere, _LOW)
        edge_counts.append(torch.searchsorted(ratio[here & is_edge].sort().values, at, right=True))
        number = torch.searchsorted(values, at, right=True)
        sums = functional.pad(each[:, own][:, order].cumsum(1), (1, 0))
        pair_number.append(number)
        pair_counts.append(sums[:, number])
    low_edges = torch.stack(edge_counts).double()  # [strata, quantiles]
    low_pairs = torch.stack(pair_counts)  # [strata, kinds, quantiles]
    shares = _mixture(low_edges / edges, low_pairs / pairs)
    number_of_edges = low_edges.sum(0) + 1
    error = (1 / number_of_edges + 1 / (torch.stack(pair_number).sum(0) + 1)).sqrt()
    sums = (shares.sum(0) + 1 / edges) * (1 + 0.5 * error)  # the least of many is too small
    best = int(sums.argmin())
    share = shares[:, best] * (sums[best] / shares[:, best].sum().clamp(min=1e-9))
    return share @ each, (float(sums[best]), float(sums[best] * error[best]))


def _mixture(edges: Tensor, pairs: Tensor) -> Tensor:
    """The most likely shares of the kinds of pairs, [kinds, quantiles], given the counts of edges (EM)."""
    share = torch.full(pairs.shape[1:], 0.5, dtype=torch.float64)
    whole = pairs.sum(0).clamp(min=1e-12)
    for _ in range(200):
        explained = (share * pairs).sum(1).clamp(min=1e-12)
        share = share * (pairs * (edges / explained)[:, None]).sum(0) / whole
    return share


def _quantiles(ordered: Tensor, at: Tensor) -> Tensor:
    return ordered[(at * (len(ordered) - 1)).long()]


def _interval(share: float, levels: list[tuple[float, float]]) -> tuple[float, float]:
    """The share with two standard errors to both sides: those of the counts and of the choice of planted pairs."""
    shares, errors = torch.tensor(levels, dtype=torch.float64).unbind(1)
    error = 2 * float((shares.var(correction=1) + errors.square().mean()).sqrt())
    return max(0.0, share - error), min(1.0, share + error)


def _unit_rows(x: Tensor) -> Tensor:
    """Rows of length 1, or of zeros, float64; a rare column weighs more."""
    rarity = torch.log1p(len(x) / (x != 0).sum(0).clamp(min=1))
    return functional.normalize(x.double() * rarity, dim=1)


class _Pairs:
    """Pairs of nodes, in ascending order of their ids, as an undirected graph, and the four numbers of each pair."""

    def __init__(self, keys: Tensor, x: Tensor) -> None:
        n = len(x)
        self.u, self.v = pair_ends(keys)
        self.pairs = EdgeIndex(self.u, self.v, n, n)
        self.both_ways = EdgeIndex(torch.cat([self.u, self.v]), torch.cat([self.v, self.u]), n, n)
        self.x = x
        self.length = self.x.square().sum(1)  # 1, or 0 for a row of zeros
        self.cosine = edge_dot(self.pairs, self.x, self.x)

    def features(self, weight: Tensor) -> Tensor:
        """The four numbers of each pair, float32 [pairs, 4]. A neighbour is weighted like the pair that joins it."""
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
    """The dot product divided by the lengths, or 0 where a length is 0 up to rounding."""
    nothing = torch.stack(squares).amin(0) < 1e-9
    lengths = torch.stack(squares).clamp(min=1e-9).sqrt().prod(0)
    return torch.where(nothing, 0.0, dot / lengths).clamp(-1, 1)


def _noise_share(edges: Tensor, planted: Tensor) -> float:
    """The minimum over the planted pairs' 5 .. 95 % quantiles t of P(edge <= t) / P(pair <= t).

    A minimum of noisy ratios is too small, on small graphs by far, so one standard error is added to each ratio.
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

"""The density prior: its numbers against plain loops, its estimates on real data, odd graphs."""

import math
from pathlib import Path

import dgl
import pytest
import torch
from graphs import some_features

import dgl_ptdnet as ptd
from dgl_ptdnet import prior as prior_module
from dgl_ptdnet.data import add_noise_edges, load
from dgl_ptdnet.pairs import pair_ends, pair_ids
from dgl_ptdnet.prior import density_prior

SHARED = Path(__file__).parents[1].parent / "shared" / "datasets"
real_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"there is no {SHARED}")


def random_pairs(nodes, count, seed=0):
    """The ids of different pairs."""
    generator = torch.Generator().manual_seed(seed)
    u, v = torch.randint(0, nodes, (2, 4 * count), generator=generator)
    keys = pair_ids(u, v)[u != v].unique()
    return keys[torch.randperm(len(keys), generator=generator)[:count]]


def groups(nodes=400, degree=6, noise=0.3, seed=0):
    """Four groups with features of their own, edges inside of them, and a share of noise. Both directions."""
    generator = torch.Generator().manual_seed(seed)
    group = torch.arange(nodes) * 4 // nodes
    x = torch.eye(4)[group] + 0.3 * torch.randn(nodes, 4, generator=generator)
    count = nodes * degree // 2
    u = torch.randint(0, nodes, (count,), generator=generator)
    v = group[u] * (nodes // 4) + torch.randint(0, nodes // 4, (count,), generator=generator)
    g = dgl.to_simple(dgl.graph((torch.cat([u, v]), torch.cat([v, u])), num_nodes=nodes)).remove_self_loop()
    return add_noise_edges(g, round(g.num_edges() / 2 * noise / (1 - noise)), seed=seed), x, group


def slow_features(keys, x, weight):
    """The four numbers of each pair, written out in float64."""
    n = len(x)
    x = x.double() * torch.log1p(n / (x != 0).sum(0).clamp(min=1)).double()
    x = torch.stack([row / row.norm() if row.norm() > 0 else row for row in x])
    joined: list = [{} for _ in range(n)]
    ends = list(zip(*(x.tolist() for x in pair_ends(keys))))
    for (u, v), w in zip(ends, weight.tolist()):
        joined[u][v] = joined[v][u] = w

    def without(node, other):
        return sum((w * x[k] for k, w in joined[node].items() if k != other), torch.zeros(x.shape[1], dtype=x.dtype))

    def cosine(a, b):
        return float(a @ b / (a.norm() * b.norm())) if a.norm() > 1e-9 and b.norm() > 1e-9 else 0.0

    rows = []
    for u, v in ends:
        a, b = without(u, v), without(v, u)
        common = sum(w * joined[v][k] for k, w in joined[u].items() if k in joined[v])
        rows.append([cosine(x[u], x[v]), cosine(a, x[v]) + cosine(x[u], b), cosine(a, b), math.log1p(common)])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["words", "dense"])
@pytest.mark.parametrize(("nodes", "count", "feats"), [(5, 6, 3), (30, 25, 7), (30, 200, 1), (60, 400, 33)])
def test_features_of_pairs_are_those_of_plain_loops(kind, nodes, count, feats):
    keys, x = random_pairs(nodes, count).sort().values, some_features(nodes, feats, kind)
    pairs = prior_module._Pairs(keys, prior_module._unit_rows(x))
    for weight in (torch.ones(len(keys)), torch.linspace(0.01, 0.99, len(keys))):
        got, want = pairs.features(weight.double()), slow_features(keys, x, weight.double())
        torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=2e-6)


def test_features_do_not_suffer_from_a_heavy_edge_beside_light_ones():
    x = torch.tensor([[1.0, 0.2, 0.0], [0.9, 0.1, 0.3], [0.1, 1.0, 0.5], [0.3, 0.3, 1.0]])
    keys = pair_ids(torch.tensor([0, 0, 2]), torch.tensor([1, 2, 3]))  # node 0: S without 1 is a hundredth of S
    weight = torch.tensor([0.99, 0.01, 0.5], dtype=torch.float64)
    got, want = prior_module._Pairs(keys, prior_module._unit_rows(x)).features(weight), slow_features(keys, x, weight)
    torch.testing.assert_close(got.double(), want, atol=1e-6, rtol=1e-6)


def test_the_noise_share_is_the_least_ratio_with_a_standard_error():
    generator = torch.Generator().manual_seed(0)
    planted = torch.randn(700, generator=generator)
    edges = torch.cat([torch.randn(500, generator=generator), torch.randn(900, generator=generator) + 3])
    ratios = []
    for percent in range(5, 96):
        t = planted.sort().values[int(percent / 100 * 699 + 1e-9)]
        a, b = 1 + int((edges <= t).sum()), int((planted <= t).sum())
        ratios.append(a / 1400 / (b / 700) * (1 + (1 / a + 1 / b) ** 0.5))
    share = prior_module._noise_share(edges, planted)
    assert share == pytest.approx(min(ratios), rel=1e-9)
    assert share == pytest.approx(5 / 14, abs=0.05)


def ends_of(keys, n):
    return torch.cat(pair_ends(keys)).bincount(minlength=n)


def test_planted_pairs_are_different_unlinked_and_of_two_kinds():
    n = 300
    keys = random_pairs(n, 3000)
    keys = keys[(pair_ends(keys)[0] < 60) | (torch.arange(len(keys)) % 3 == 0)].sort().values
    planted = prior_module._plant(keys, n, torch.Generator().manual_seed(0))
    assert torch.equal(planted.keys, planted.keys.unique())
    u, v = pair_ends(planted.keys)
    assert (u < v).all()
    edges, uniform, by_degree = (planted.keys[planted.kind == kind] for kind in range(3))
    assert torch.equal(edges, keys)
    assert len(uniform) == len(by_degree) == 1000  # at least as many on a small graph
    ends, hubs, mean = ends_of(uniform, n), ends_of(by_degree, n), 2 * len(uniform) / n
    assert ends.max() < 3 * mean
    assert planted.uniform == mean
    assert torch.equal(planted.degree, ends_of(edges, n) + ends)
    expected = (planted.degree - mean).clamp(min=0) + 1
    assert expected[:60].mean() > 1.5 * expected[60:].mean()
    got, want = hubs[:60].sum() / hubs.sum(), expected[:60].sum() / expected.sum()
    assert got.item() == pytest.approx(want.item(), abs=0.06)


def test_a_mixture_of_both_kinds_of_pairs_is_found_again():
    generator = torch.Generator().manual_seed(0)
    pairs = torch.rand(10, 2, 3, generator=generator, dtype=torch.float64)
    shares = torch.tensor([[0.5, 0.0, 0.1], [0.2, 0.7, 0.0]], dtype=torch.float64)
    found = prior_module._mixture((pairs * shares).sum(1), pairs)
    torch.testing.assert_close(found, shares, atol=0.02, rtol=0)


def test_the_interval_is_two_standard_errors_wide_and_inside_of_zero_and_one():
    levels = [(0.2, 0.03), (0.3, 0.04)]  # variance 0.005 between, 0.00125 within
    assert prior_module._interval(0.5, levels) == pytest.approx((0.5 - 2 * 0.00625**0.5, 0.5 + 2 * 0.00625**0.5))
    assert prior_module._interval(0.1, levels)[0] == 0
    assert prior_module._interval(0.9, levels)[1] == 1


def auc(score, positive):
    """The chance that a positive is above a negative; ties count half."""
    _, place, counts = score.unique(return_inverse=True, return_counts=True)
    rank = (counts.cumsum(0) - (counts - 1) / 2)[place]
    a, b = int(positive.sum()), int((~positive).sum())
    return float(rank[positive].double().sum() - a * (a + 1) / 2) / (a * b)


def log_loss(real, noise):
    return float(torch.where(noise, 1 - real, real).log().neg().mean())


@real_data
@pytest.mark.parametrize(
    ("kind", "pairs", "loss", "ranking"),
    [
        ("uniform", 0, 0.05, None),
        ("uniform", 20_000, 0.28, 0.9),
        ("hubs", 20_000, 0.33, 0.87),
        ("heterophilous", 20_000, 0.28, 0.9),
        ("hubs", 5_000, 0.4, 0.9),
    ],
)
def test_noise_on_cora_is_measured_and_found_whatever_its_kind(kind, pairs, loss, ranking):
    g = add_noise_edges(load("cora", SHARED).graph, pairs, seed=1, kind=kind)
    noise = g.edata["noise"]
    prior = density_prior(g, g.ndata["feat"])
    assert prior.noise_share == pytest.approx(noise.float().mean().item(), abs=0.07)
    assert log_loss(prior.real, noise) < loss
    low, high = prior.interval
    assert 0 <= low < prior.noise_share < high <= 1
    if ranking is not None:
        assert auc(prior.real, ~noise) > ranking


@real_data
def test_an_attack_is_measured_and_found_although_its_edges_meet_at_few_nodes():
    clean, attacked = (load(str(SHARED / "development" / f"citeseer_meta_{k}.npz"), "").graph for k in ("00", "25"))
    nodes = clean.num_nodes()
    was, now = ((g.edges()[0] * nodes + g.edges()[1]) for g in (clean, attacked))
    noise = ~torch.isin(now, was)
    prior = density_prior(attacked, attacked.ndata["feat"])
    assert prior.noise_share == pytest.approx(noise.float().mean().item(), abs=0.08)
    assert auc(prior.real, ~noise) > 0.91
    assert log_loss(prior.real, noise) < 0.32
    assert density_prior(clean, clean.ndata["feat"]).noise_share < 0.04


@real_data
def test_rows_of_zeros_in_citeseer_are_taken():
    g = load("citeseer", SHARED).graph
    assert (g.ndata["feat"].abs().sum(1) == 0).sum() == 15
    prior = density_prior(g, g.ndata["feat"])
    assert prior.real.isfinite().all()
    assert prior.noise_share < 0.1


@pytest.mark.parametrize(("nodes", "band"), [(200, 0.2), (1000, 0.1)])
@pytest.mark.parametrize("noise", [0.0, 0.25, 0.5])
def test_the_noise_share_holds_on_small_graphs(nodes, band, noise):
    shares = [density_prior(g, x).noise_share for g, x, _ in (groups(nodes, 4, noise, seed) for seed in range(2))]
    assert sum(shares) / 2 == pytest.approx(noise, abs=band)


def test_same_seed_same_bits_for_any_number_of_threads(threads):
    g, x, _ = groups(1500)
    results = []
    for count in (1, 2, 3):
        threads(count)
        torch.manual_seed(count)
        state = torch.get_rng_state()
        results.append(density_prior(g, x, seed=5))
        assert torch.get_num_threads() == count
        assert torch.equal(state, torch.get_rng_state())  # the generator of the user is left alone
    assert all(torch.equal(results[0].real, other.real) for other in results)
    assert len({prior.noise_share for prior in results}) == 1
    assert not torch.equal(results[0].real, density_prior(g, x, seed=6).real)


def test_an_edge_its_reverse_and_its_parallels_have_one_number_and_loops_are_real():
    g, x, _ = groups()
    src, dst = g.edges()
    again = dgl.add_self_loop(dgl.graph((torch.cat([dst, src[:50]]), torch.cat([src, dst[:50]])), num_nodes=400))
    one, other = density_prior(g, x), density_prior(again, x)
    number = {pair: p for *pair, p in zip(src.tolist(), dst.tolist(), one.real.tolist()) for pair in [tuple(pair)]}
    assert one.noise_share == other.noise_share
    for u, v, p in zip(*(end.tolist() for end in again.edges()), other.real.tolist()):
        assert p == (pytest.approx(0.99) if u == v else number[u, v]) == pytest.approx(number.get((v, u), 0.99))


def test_graphs_and_indices_of_any_id_type_give_the_same():
    g, x, _ = groups()
    want = density_prior(g, x)
    assert want.real.shape == (g.num_edges(),)
    assert want.real.dtype == torch.float32
    assert torch.equal(want.logit, torch.logit(want.real))
    for same in (g.int(), ptd.EdgeIndex(*g.edges(), 400, 400)):
        assert torch.equal(density_prior(same, x).real, want.real)
    for same in (x.double(), x.clone().requires_grad_(), x.t().contiguous().t()):
        assert torch.equal(density_prior(g, same).real, want.real)
    with torch.inference_mode():
        assert torch.equal(density_prior(g, x).real, want.real)


@pytest.mark.parametrize(
    ("src", "dst", "nodes"),
    [
        ([], [], 0),
        ([], [], 4),
        ([0, 0], [0, 0], 1),  # a self-loop, twice
        ([0], [1], 2),  # no pair is left to compare with
        ([0, 0, 1], [1, 2, 2], 3),
        ([0], [1], 3),
        ([0, 1, 2, 3], [1, 2, 3, 3], 50),
        ([0] * 49, list(range(1, 50)), 50),  # a star
    ],
)
def test_tiny_graphs_give_finite_numbers(src, dst, nodes):
    g = dgl.graph((torch.tensor(src, dtype=torch.int64), torch.tensor(dst, dtype=torch.int64)), num_nodes=nodes)
    for x in (torch.randn(nodes, 3), torch.zeros(nodes, 3), torch.ones(nodes, 1, dtype=torch.int64)):
        prior = density_prior(g, x)
        assert prior.real.shape == (len(src),)
        assert ((prior.real >= 0.0099) & (prior.real <= 0.9901)).all()
        assert 0 <= prior.noise_share <= 1


def test_features_that_say_nothing_leave_all_edges_alike():
    generator = torch.Generator().manual_seed(0)
    g = add_noise_edges(dgl.graph(([], []), num_nodes=2000), 6000)
    prior = density_prior(g, torch.randn(2000, 16, generator=generator))
    assert prior.noise_share > 0.8  # random edges, all of them
    assert prior.real.mean() < 0.3


def test_the_prior_refuses_wrong_input_with_the_argument_and_the_remedy():
    g, x, _ = groups()
    block = dgl.to_block(dgl.in_subgraph(g, torch.arange(10)), torch.arange(10))
    two = dgl.heterograph({("a", "to", "b"): ([0, 1], [1, 0])})
    bad = x.clone()
    bad[3, 2] = float("nan")
    cases = [
        (ValueError, r"N = 400 nodes.*got shape \(399, 4\)", g, x[:-1]),
        (ValueError, "F >= 1", g, x[:, :0]),
        (ValueError, "x must be .N, F.", g, x[:, 0]),
        (ValueError, "not finite", g, bad),
        (TypeError, "dense torch.Tensor", g, x.to_sparse()),
        (TypeError, "dense torch.Tensor", g, x.numpy()),
        (ValueError, "nodes of one set.*dgl.EID", block, x),
        (ValueError, "nodes of one set", two, x[:2]),
        (ValueError, "nodes of one set", ptd.EdgeIndex(torch.tensor([0]), torch.tensor([0]), 2, 1), x[:2]),
    ]
    for error, message, graph, feats in cases:
        with pytest.raises(error, match=message):
            density_prior(graph, feats)

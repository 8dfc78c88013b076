"""The density prior and the agreement: formulas against plain loops, estimates on real data, resuming, odd graphs."""

import copy
import math
from pathlib import Path

import dgl
import pytest
import torch
from torch.nn import functional

import dgl_ptdnet as ptd
from dgl_ptdnet import prior as prior_module
from dgl_ptdnet.agreement import Agreement
from dgl_ptdnet.data import add_noise_edges, load
from dgl_ptdnet.prior import Prior, density_prior
from dgl_ptdnet.sparse import SparseRows, dropout

SHARED = Path(__file__).parents[1].parent / "shared" / "datasets"
real_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"there is no {SHARED}")


def random_pairs(nodes, count, seed=0):
    """Different pairs u < v as keys u * nodes + v."""
    generator = torch.Generator().manual_seed(seed)
    u, v = torch.randint(0, nodes, (2, 4 * count), generator=generator)
    keys = (torch.minimum(u, v) * nodes + torch.maximum(u, v))[u != v].unique()
    return keys[torch.randperm(len(keys), generator=generator)[:count]]


def some_features(nodes, feats, kind, seed=0):
    x = torch.randn(nodes, feats, generator=torch.Generator().manual_seed(seed))
    if kind != "dense":
        x = (x > (1.5 if kind == "few words" else 0.8)).float()
        x[::5] = 0  # rows of zeros
    return x


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
    for key, w in zip(keys.tolist(), weight.tolist()):
        u, v = divmod(key, n)
        joined[u][v] = joined[v][u] = w

    def without(node, other):
        return sum((w * x[k] for k, w in joined[node].items() if k != other), torch.zeros(x.shape[1], dtype=x.dtype))

    def cosine(a, b):
        return float(a @ b / (a.norm() * b.norm())) if a.norm() > 1e-9 and b.norm() > 1e-9 else 0.0

    rows = []
    for key in keys.tolist():
        u, v = divmod(key, n)
        a, b = without(u, v), without(v, u)
        common = sum(w * joined[v][k] for k, w in joined[u].items() if k in joined[v])
        rows.append([cosine(x[u], x[v]), cosine(a, x[v]) + cosine(x[u], b), cosine(a, b), math.log1p(common)])
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["words", "dense"])
@pytest.mark.parametrize(("nodes", "count", "feats"), [(5, 6, 3), (30, 25, 7), (30, 200, 1), (60, 400, 33)])
def test_features_of_pairs_are_those_of_plain_loops(kind, nodes, count, feats):
    keys, x = random_pairs(nodes, count).sort().values, some_features(nodes, feats, kind)
    pairs = prior_module._Pairs(keys, x)
    for weight in (torch.ones(len(keys)), torch.linspace(0.01, 0.99, len(keys))):
        got, want = pairs.features(weight.double()), slow_features(keys, x, weight.double())
        torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=2e-6)


def test_features_do_not_suffer_from_a_heavy_edge_beside_light_ones():
    n = 4  # node 0: S without 1 is a hundredth of S
    x = torch.tensor([[1.0, 0.2, 0.0], [0.9, 0.1, 0.3], [0.1, 1.0, 0.5], [0.3, 0.3, 1.0]])
    keys, weight = torch.tensor([1, 2, 2 * n + 3]), torch.tensor([0.99, 0.01, 0.5], dtype=torch.float64)
    got, want = prior_module._Pairs(keys, x).features(weight), slow_features(keys, x, weight)
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


def test_planted_pairs_are_different_unlinked_and_spread_over_all_nodes():
    n = 300
    keys = random_pairs(n, 6000).sort().values
    planted = prior_module._plant(keys, n, torch.Generator().manual_seed(0))
    assert len(planted) == 1500 == len(planted.unique())
    assert not torch.isin(planted, keys).any()
    u, v = planted // n, planted % n
    assert (u < v).all()
    ends = torch.cat([u, v]).bincount(minlength=n)
    assert ends.min() > 0
    assert ends.max() < 30  # 10 on average


def auc(score, positive):
    """The chance that a positive is above a negative; ties count half."""
    _, place, counts = score.unique(return_inverse=True, return_counts=True)
    rank = (counts.cumsum(0) - (counts - 1) / 2)[place]
    a, b = int(positive.sum()), int((~positive).sum())
    return float(rank[positive].double().sum() - a * (a + 1) / 2) / (a * b)


@real_data
@pytest.mark.parametrize("pairs", [0, 1000, 5000, 10000, 20000])
def test_noise_on_cora_is_measured_and_found(pairs):
    clean = load("cora", SHARED).graph
    g = add_noise_edges(clean, pairs, seed=1)
    noise = g.edata["noise"]
    prior = density_prior(g, g.ndata["feat"])
    assert prior.noise_share == pytest.approx(noise.float().mean().item(), abs=0.1)
    if pairs:
        assert auc(prior.real, ~noise) > 0.9
        assert prior.real[~noise].mean() - prior.real[noise].mean() > 0.35
    else:
        assert prior.real.mean() > 0.93  # gates stay open on a clean graph


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


def some_agreement(nodes=40, classes=3, kind="words", **options):
    torch.manual_seed(0)
    x = some_features(nodes, 9, kind)
    labels = torch.arange(nodes) % classes
    train = torch.arange(nodes) % 4 == 0
    train[:3] = True
    g = dgl.rand_graph(nodes, 150)
    return Agreement(x, labels, train, classes, **options), g, x, labels, train


@pytest.mark.parametrize("kind", ["few words", "words", "dense"])
def test_the_bias_is_that_of_plain_loops(kind):
    agreement, g, x, labels, train = some_agreement(homophily=0.7, kind=kind)
    assert isinstance(agreement.x, SparseRows) == (kind == "few words")
    agreement.double()
    prior = Prior(torch.rand(150, dtype=torch.float64).clamp(0.01, 0.99), 0.5)
    unit = torch.stack([row / row.norm() if row.norm() else row for row in x.double()])
    p = agreement.out(torch.relu(agreement.hidden(unit))).softmax(1).detach()
    k = sum(float((labels[train] == c).double().mean()) ** 2 for c in range(3))
    want: dict = {True: [], False: []}
    for u, v, real in zip(*(end.tolist() for end in g.edges()), prior.real.tolist()):
        q = min(0.99, max(0.01, float(p[u] @ p[v])))
        for pi in (real, 0.99):
            ratio = (pi * 0.7 / k + 1 - pi) / (pi * 0.3 / (1 - k) + 1 - pi)
            want[pi is real].append(math.log(q / (1 - q)) + math.log(ratio))
    for given in (prior, None):
        full = torch.tensor(want[given is prior])
        start = prior.logit if given is prior else torch.full((150,), math.log(99.0))
        for epoch, moved in ((0, 0.0), (60, 0.0), (66, 0.2), (90, 1.0), (1000, 1.0)):
            bias = agreement.edge_bias(g, given, epoch)
            assert not bias.requires_grad
            torch.testing.assert_close(bias.float(), (start + moved * (full - start)).float(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", ["few words", "dense"])
def test_the_loss_learns_training_labels_first_and_the_model_s_answers_later(kind):
    agreement, _, _, labels, train = some_agreement(dropout=0.0, kind=kind)
    logits = agreement.logits().detach()
    want = functional.cross_entropy(logits[train], labels[train])
    torch.testing.assert_close(agreement.loss(59), want)

    seen = [torch.rand(40, 3).softmax(1) for _ in range(3)]
    average, total = torch.zeros(40, 3), 0.0
    for k, probabilities in enumerate(seen):
        agreement.observe(probabilities)
        average += 0.9 ** (2 - k) * probabilities
        total += 0.9 ** (2 - k)
    average /= total
    loss, weights = 0.0, 0.0
    for node in range(40):
        label = int(labels[node]) if train[node] else int(average[node].argmax())
        weight = 1.0 if train[node] else float(average[node].max()) ** 2
        loss += weight * -float(logits[node].log_softmax(0)[label])
        weights += weight
    assert agreement.loss(60).item() == pytest.approx(loss / weights, rel=1e-5)


def test_labels_outside_of_the_training_nodes_do_not_matter():
    one, g, x, labels, train = some_agreement()
    hidden = torch.where(train, labels, 12345)
    torch.manual_seed(0)
    other = Agreement(x, hidden, train, 3)
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.edge_bias(g, None, 100), other.edge_bias(g, None, 100))
    for epoch in (0, 100):
        losses = []
        for agreement in (one, other):
            torch.manual_seed(1)
            losses.append(agreement.loss(epoch))
        assert torch.equal(*losses)


def epochs(agreement, optimizer, g, first, last):
    biases = []
    for epoch in range(first, last):
        biases.append(agreement.edge_bias(g, None, epoch))
        probabilities = torch.rand(40, 3).softmax(1)
        agreement.observe(probabilities)
        optimizer.zero_grad()
        agreement.loss(epoch).backward()
        optimizer.step()
    return biases


@pytest.mark.parametrize("kind", ["few words", "dense"])
def test_a_run_resumed_from_its_state_goes_on_with_the_same_bits(kind):
    options = {"warmup": 4, "ramp": 3}
    agreement, g, x, labels, train = some_agreement(kind=kind, **options)
    optimizer = torch.optim.Adam(agreement.parameters(), lr=0.01, weight_decay=1e-4)
    epochs(agreement, optimizer, g, 0, 6)
    saved = copy.deepcopy((agreement.state_dict(), optimizer.state_dict(), torch.get_rng_state()))
    want = epochs(agreement, optimizer, g, 6, 12)

    resumed = Agreement(x, labels, train, 3, **options)
    optimizer = torch.optim.Adam(resumed.parameters(), lr=0.01, weight_decay=1e-4)
    resumed.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    torch.set_rng_state(saved[2])
    got = epochs(resumed, optimizer, g, 6, 12)
    assert all(torch.equal(*pair) for pair in zip(got, want))
    assert all(torch.equal(resumed.state_dict()[name], value) for name, value in agreement.state_dict().items())


def test_agreement_is_the_same_on_a_graph_and_its_index():
    agreement, g, _, _, _ = some_agreement()
    index = ptd.EdgeIndex(*g.edges(), 40, 40)
    assert torch.equal(agreement.edge_bias(g, None, 100), agreement.edge_bias(index, None, 100))
    assert agreement.edge_bias(dgl.graph(([], []), num_nodes=40), None, 100).shape == (0,)


def test_one_class_alone_gives_finite_numbers():
    agreement = Agreement(torch.rand(5, 4), torch.zeros(5, dtype=torch.int64), torch.ones(5, dtype=torch.bool), 1)
    g = dgl.graph(([0, 1], [1, 2]), num_nodes=5)
    assert agreement.edge_bias(g, None, 100).isfinite().all()
    assert agreement.loss(100).isfinite()


def test_agreement_refuses_wrong_input_with_the_argument_and_the_remedy():
    x, labels, train = torch.rand(3, 4), torch.tensor([0, 1, 1]), torch.tensor([True, False, True])
    cases = [
        ("several labels a node", (x, torch.rand(3, 2), train, 2), {}),
        ("labels must be int64", (x, labels.float(), train, 2), {}),
        (r"x must be \[N, F\] with N = 3", (x[:2], labels, train, 2), {}),
        ("train_mask must be bool", (x, labels, torch.tensor([0, 2]), 2), {}),
        ("in 0 .. 0", (x, labels, train, 1), {}),
        ("must mark some", (x, labels, torch.zeros(3, dtype=torch.bool), 2), {}),
        ("homophily must be in", (x, labels, train, 2), {"homophily": 1.0}),
        ("momentum in", (x, labels, train, 2), {"momentum": 1.0}),
        ("must not be negative", (x, labels, train, 2), {"warmup": -1}),
    ]
    for message, arguments, options in cases:
        with pytest.raises(ValueError, match=message):
            Agreement(*arguments, **options)
    agreement = Agreement(x, labels, train, 2)
    with pytest.raises(ValueError, match=r"probabilities must be \[N, C\] = \(3, 2\)"):
        agreement.observe(torch.rand(2, 2))
    g = dgl.graph(([0], [1]), num_nodes=3)
    for graph, prior in ((g, Prior(torch.rand(5), 0.0)), (dgl.add_nodes(g, 1), None)):
        with pytest.raises(ValueError, match="make them for this graph"):
            agreement.edge_bias(graph, prior, 0)


def accuracy(g, bias_of, agreement, epochs=120):
    """Test accuracy of a GCN with two layers whose gates have the given bias and learn nothing themselves."""
    torch.manual_seed(0)
    labels, train, nodes = g.ndata["label"], g.ndata["train_mask"], g.num_nodes()
    whole = dgl.add_self_loop(g)
    index, loops = ptd.EdgeIndex(*whole.edges(), nodes, nodes), torch.ones(nodes)
    first, second = torch.nn.Linear(g.ndata["feat"].shape[1], 32), torch.nn.Linear(32, 7)
    parameters = [{"params": layer.parameters()} for layer in (first, second)]
    parameters += [{"params": agreement.parameters(), "lr": 0.01}]
    optimizer = torch.optim.Adam(parameters, lr=0.03, weight_decay=1e-4)

    def forward(z, drop):
        h = torch.relu(ptd.aggregate(index, first(dropout(agreement.x, 0.5, drop)), z, norm="both"))
        return ptd.aggregate(index, second(functional.dropout(h, 0.5, drop)), z, norm="both")

    for epoch in range(epochs):
        z = torch.cat([(torch.sigmoid(bias_of(epoch)) * 1.2 - 0.1).clamp(0, 1), loops])
        with torch.no_grad():
            agreement.observe(forward(z, False).softmax(1))
        loss = functional.cross_entropy(forward(z, True)[train], labels[train]) + agreement.loss(epoch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        return (forward(z, False).argmax(1) == labels)[g.ndata["test_mask"]].float().mean().item()


@real_data
def test_both_additions_lift_a_gcn_on_cora_with_noise(threads):
    threads(1)
    g = add_noise_edges(load("cora", SHARED).graph, 20_000, seed=0)
    x, labels, train = g.ndata["feat"], g.ndata["label"], g.ndata["train_mask"]
    prior, open_gates = density_prior(g, x), torch.full((g.num_edges(),), 10.0)
    biases = {
        "none": lambda agreement, epoch: open_gates,
        "prior": lambda agreement, epoch: prior.logit,
        "both": lambda agreement, epoch: agreement.edge_bias(g, prior, epoch),
    }
    found = {}
    for name, bias in biases.items():
        agreement = Agreement(x, labels, train, 7)
        found[name] = accuracy(g, lambda epoch, a=agreement, bias=bias: bias(a, epoch), agreement)
    assert found["prior"] > found["none"] + 0.1, found
    assert found["both"] > found["prior"] + 0.02, found

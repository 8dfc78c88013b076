"""The low-rank term against dense singular values in float64."""

import copy
import gc
import io
import pickle
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from twins import make_index

import dgl_ptdnet as ptd
from dgl_ptdnet.data import load, planted
from dgl_ptdnet.graph import edges_of

dgl = pytest.importorskip("dgl")
DATA = Path(__file__).parents[1].parent / "shared" / "datasets"
METHODS = ["subspace", "power"]
EXACT: Any = {"tol": 1e-13, "max_sweeps": 300}


@pytest.fixture(autouse=True)
def one_thread(threads):
    threads(1)  # the graphs are small


def dense(index, z):
    matrix = torch.zeros(index.num_src, index.num_dst, dtype=torch.float64)
    return matrix.index_put((index.src.long(), index.dst.long()), z.detach().double(), accumulate=True)


def norm_of(index, z, k):
    """The norm by a dense decomposition; 0 for a graph without nodes."""
    matrix = dense(index, z)
    return torch.linalg.svdvals(matrix)[:k].sum().item() if matrix.numel() else 0.0


def dense_gradient(index, z, k):
    u, _, vh = torch.linalg.svd(dense(index, z), full_matrices=False)
    return (u[:, :k] @ vh[:k])[index.src.long(), index.dst.long()]


def open_gates(edges, seed=0, dtype=torch.float64):
    """Between 0.2 and 1: away from ties."""
    return 0.2 + 0.8 * torch.rand(edges, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def moving_gates(edges, steps, seed=0):
    """Gates of logits that wander, as in training."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(edges, generator=generator) + 1
    for _ in range(steps):
        logits = logits + 0.05 * torch.randn(edges, generator=generator)
        yield torch.sigmoid(logits).mul(1.2).sub(0.1).clamp(0, 1)


def value_and_gradient(rank, g, z):
    leaf = z.detach().clone().requires_grad_()
    value = rank(g, leaf)
    value.backward()
    return value.detach(), leaf.grad


@lru_cache
def real(name):
    """A published graph's index, random gates, and its 33 largest singular values and vectors by scipy."""
    linalg = pytest.importorskip("scipy.sparse.linalg")
    if not DATA.exists():
        pytest.skip("the data sets are not there")
    index = edges_of(load(name, DATA).graph).index
    z = open_gates(index.num_edges, dtype=torch.float32)
    matrix = dense(index, z).to_sparse() if name == "cora" else None
    from scipy.sparse import csr_matrix

    place = (index.src.numpy(), index.dst.numpy())
    sparse = csr_matrix((z.double().numpy(), place), (index.num_src, index.num_dst))
    u, values, vh = (torch.from_numpy(x.copy()) for x in linalg.svds(sparse, k=33, tol=1e-12))
    assert matrix is None or torch.allclose(values.flip(0), torch.linalg.svdvals(matrix.to_dense())[:33])
    return index, z, values.flip(0), u.flip(1), vh.flip(0)


@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_published_graphs_after_warm_up(name):
    index, z, values, *_ = real(name)
    for k in (1, 2, 3, 4, 8, 12, 16, 24, 32):
        rank = ptd.LowRank(k)
        for _ in range(40):
            value = rank(index, z)
        assert rank.sweeps == 1
        assert value.item() == pytest.approx(values[:k].sum().item(), rel=1e-4)
        cold = ptd.LowRank(k, tol=1e-5, max_sweeps=100)
        assert cold(index, z).item() == pytest.approx(values[:k].sum().item(), rel=1e-4)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["cora", "citeseer", "pubmed"])
def test_gradients_on_published_graphs(name, method):
    index, z, values, u, vh = real(name)
    for k in (1, 16, 32):
        rank = ptd.LowRank(k, method=method, **EXACT)
        value, gradient = value_and_gradient(rank, index, z.double())
        assert value.item() == pytest.approx(values[:k].sum().item(), rel=1e-9)
        want = torch.zeros(index.num_edges, dtype=torch.float64)
        for i in range(k):
            want += u[index.src.long(), i] * vh[i, index.dst.long()]
        gap = float(1 - values[k] / values[k - 1])
        torch.testing.assert_close(gradient, want, rtol=1e-5, atol=1e-8 / gap)


@pytest.mark.parametrize("method", METHODS)
def test_gradient_by_finite_differences(method):
    for (edges, num_src, num_dst), k in [((40, 9, 9), 3), ((30, 5, 11), 2), ((60, 12, 7), 7), ((9, 9, 9), 1)]:
        index = make_index(edges, num_src, num_dst, seed=k)
        rank = ptd.LowRank(k, method=method, **EXACT)
        z = open_gates(edges).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: rank(index, x), (z,), atol=1e-6)  # noqa: B023


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_methods_agree(dtype):
    index, z, *_ = real("cora")
    z = z.to(dtype)
    options: Any = {"tol": 1e-7 if dtype == torch.float32 else 1e-13, "max_sweeps": 300}
    for k in (1, 5):
        value, gradient = value_and_gradient(ptd.LowRank(k, **options), index, z)
        other, other_gradient = value_and_gradient(ptd.LowRank(k, method="power", **options), index, z)
        torch.testing.assert_close(value, other)
        # The error of the value is the square of that of the vectors.
        torch.testing.assert_close(gradient, other_gradient, atol=1e-3 if dtype == torch.float32 else 1e-6, rtol=0)


graphs = st.tuples(st.integers(0, 90), st.integers(1, 25), st.integers(1, 25), st.integers(0, 10**6))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs, st.integers(1, 40), st.sampled_from(METHODS), st.sampled_from([torch.float32, torch.float64]))
def test_random_graphs(graph, k, method, dtype):
    edges, num_src, num_dst, seed = graph
    index = make_index(edges, num_src, num_dst, seed=seed, ids=torch.int32 if seed % 2 else torch.int64)
    z = torch.where(open_gates(edges, seed) > 0.5, open_gates(edges, seed + 1), 0).to(dtype)
    value, gradient = value_and_gradient(ptd.LowRank(k, method=method, tol=1e-7, max_sweeps=200), index, z)
    want = norm_of(index, z, k)
    accuracy = 3e-5 if dtype == torch.float32 else 1e-6
    assert value.item() == pytest.approx(want, rel=accuracy, abs=1e-6)
    assert gradient.isfinite().all()
    # The norm is homogeneous, and its gradients are of norm 1: none rises faster than the sum of the gates.
    assert (gradient * z).sum().item() == pytest.approx(want, rel=10 * accuracy, abs=1e-5)
    assert gradient.abs().max() <= 1 + 1e-4 if edges else True


@pytest.mark.parametrize("method", METHODS)
def test_graphs_without_nodes_edges_or_open_gates(method):
    for index in (make_index(0, 0, 0), make_index(0, 5, 3), make_index(12, 5, 3)):
        rank = ptd.LowRank(4, method=method)
        for _ in range(2):
            value, gradient = value_and_gradient(rank, index, torch.zeros(index.num_edges))
            assert value.item() == 0
            assert not gradient.any()


@pytest.mark.parametrize("method", METHODS)
def test_fewer_singular_values_than_k(method):
    ring = torch.arange(3)
    index = ptd.EdgeIndex(ring, (ring + 1) % 3, 3, 3)
    z = torch.tensor([1.0, 0.5, 0.0])
    for k in (1, 2, 3, 50):  # more than the rank, and more than there are nodes
        rank = ptd.LowRank(k, method=method, tol=1e-7)
        for _ in range(3):
            value, gradient = value_and_gradient(rank, index, z)
            assert value.item() == pytest.approx(1.0 if k == 1 else 1.5)
            torch.testing.assert_close(gradient, torch.tensor([1.0, float(k > 1), 0.0]))


@pytest.mark.parametrize("method", METHODS)
def test_ties_have_the_right_value_and_a_gradient_of_norm_one(method):
    ring = torch.arange(600)
    index = ptd.EdgeIndex(ring, (ring + 7) % 600, 600, 600)  # 600 singular values of 1
    value, gradient = value_and_gradient(ptd.LowRank(5, method=method), index, torch.ones(600))
    assert value.item() == pytest.approx(5)
    assert gradient.sum().item() == pytest.approx(5, rel=1e-4)
    assert -1e-5 < gradient.min() <= gradient.max() < 1 + 1e-5


def test_a_hub_does_not_hide_the_small_singular_values():
    """A star of value 300 beside a ring of values below 1."""
    ring = torch.arange(90_000, 90_100)
    src = torch.cat([torch.zeros(90_000, dtype=torch.int64), ring])
    dst = torch.cat([torch.arange(90_000), torch.roll(ring, 1)])
    index = ptd.EdgeIndex(src, dst, 90_100, 90_100)
    z = torch.cat([torch.ones(90_000), torch.linspace(1, 0.1, 100)])
    value = ptd.LowRank(6, tol=1e-6, max_sweeps=100)(index, z)
    assert value.item() - 300 == pytest.approx(z[90_000:90_005].sum().item(), rel=1e-3)


def test_edges_that_come_back_are_found():
    """One of two components is closed for a while; then it has the larger singular values."""
    one, other = make_index(400, 60, 60), make_index(900, 60, 60, seed=1)
    index = ptd.EdgeIndex(torch.cat([one.src, other.src + 60]), torch.cat([one.dst, other.dst + 60]), 120, 120)
    z = open_gates(1300, dtype=torch.float32)
    rank = ptd.LowRank(8)
    for _ in range(200):
        rank(index, torch.cat([z[:400], torch.zeros(900)]))
    for _ in range(5):
        value = rank(index, z)
    assert value.item() == pytest.approx(norm_of(index, z, 8), rel=1e-3)


def test_warm_steps_take_few_sweeps_and_stay_accurate():
    index = edges_of(planted().graph).index
    rank = ptd.LowRank(5)
    for step, z in enumerate(moving_gates(index.num_edges, 6)):
        assert rank(index, z).item() == pytest.approx(norm_of(index, z, 5), rel=1e-3)
        assert step == 0 or rank.sweeps <= 2


def test_max_sweeps_is_the_most():
    rank = ptd.LowRank(8, tol=0.0, max_sweeps=3)
    rank(make_index(2_000, 200, 200), open_gates(2_000))
    assert rank.sweeps == 3


@pytest.mark.parametrize(("k", "method"), [(1, "subspace"), (16, "subspace"), (45, "subspace"), (3, "power")])
@pytest.mark.parametrize("edges", [900, 60_000])
def test_results_do_not_depend_on_the_number_of_threads(edges, k, method, threads):
    index = make_index(edges, edges // 7, edges // 9, hub=True)
    steps = list(moving_gates(edges, 3))  # torch's own functions of them do depend on it
    results = []
    for count in (1, 2, 3, 8):
        threads(count)
        rank = ptd.LowRank(k, method=method, max_sweeps=6)
        results.append([value_and_gradient(rank, index, z) for z in steps])
        results[-1].append(tuple(rank.get_extra_state().values()))
    for other in results[1:]:
        assert all(torch.equal(x, y) for one, two in zip(results[0], other) for x, y in zip(one, two))


def copies(rank):
    buffer = io.BytesIO()
    torch.save(rank.state_dict(), buffer)
    buffer.seek(0)
    loaded = ptd.LowRank(rank.k, per_graph=rank.per_graph)
    loaded.load_state_dict(torch.load(buffer, weights_only=True))
    return [loaded, copy.deepcopy(rank), pickle.loads(pickle.dumps(rank)), copy.deepcopy(loaded)]


def same_state(one, other):
    states = [rank.state_dict()["_extra_state"] for rank in (one, other)]
    return states[0].keys() == states[1].keys() and all(torch.equal(x, states[1][k]) for k, x in states[0].items())


def test_a_run_that_is_resumed_goes_on_with_the_same_bits():
    index = make_index(5_000, 700, 600)
    rank = ptd.LowRank(6)
    assert all(other(index, torch.rand(5_000)).isfinite() for other in copies(rank))  # before the first call, too
    *before, last = moving_gates(5_000, 4)
    for z in before:
        rank(index, z)
    resumed = copies(rank)
    want = value_and_gradient(rank, index, last)
    assert rank.sweeps <= 2
    for other in resumed:
        assert all(torch.equal(x, y) for x, y in zip(want, value_and_gradient(other, index, last)))
        assert other.sweeps == rank.sweeps
        assert same_state(other, rank)
    small = make_index(50, 9, 9)  # what was loaded is of no use to another graph
    loaded = copies(rank)[0]
    z = open_gates(50, dtype=torch.float32)
    assert torch.equal(loaded(small, z), ptd.LowRank(6)(small, z))


def test_the_state_holds_the_start_of_every_graph():
    indices = [make_index(900, 90, 90, seed=seed) for seed in range(3)]
    z = open_gates(900, dtype=torch.float32)
    rank = ptd.LowRank(4)
    for index in indices:
        rank(index, z)
    for other in copies(rank):
        assert same_state(other, rank)
        for index in reversed(indices):
            want = value_and_gradient(copy.deepcopy(rank), index, z)
            assert all(torch.equal(x, y) for x, y in zip(want, value_and_gradient(other, index, z)))
            assert other.sweeps == 1
            assert len(other.state_dict()["_extra_state"]) == 3  # also those that were not called again yet


def test_sampled_graphs_leave_nothing_behind():
    index = make_index(900, 90, 90)
    z = open_gates(900, dtype=torch.float32)
    rank = ptd.LowRank(4)
    assert torch.equal(rank(index, z, remember=False), ptd.LowRank(4)(index, z))
    assert not rank.state_dict()["_extra_state"]


def test_a_huge_k_takes_the_memory_of_the_graph_alone():
    index = make_index(60, 9, 7)
    z = open_gates(60)
    assert ptd.LowRank(10**6)(index, z).item() == pytest.approx(norm_of(index, z, 7), rel=1e-3)


def test_every_graph_has_its_own_start_as_long_as_it_lives():
    indices = [make_index(4_000, 500, 500, seed=seed) for seed in range(3)]
    z = open_gates(4_000, dtype=torch.float32)
    rank = ptd.LowRank(4)
    cold = []
    for index in indices:
        rank(index, z)
        cold.append(rank.sweeps)
    for index in indices:
        rank(index, z)
        assert rank.sweeps == 1
    assert min(cold) > 2
    assert len(rank._matrices) == 3
    del index, indices
    gc.collect()
    assert len(rank._matrices) == 0


def test_another_dtype_starts_anew():
    index = make_index(3_000, 300, 300)
    z = open_gates(3_000)
    rank = ptd.LowRank(3)
    assert rank(index, z.float()).dtype == torch.float32
    assert torch.equal(rank(index, z), ptd.LowRank(3)(index, z))


def dgl_graph(seed=0, nodes=40, edges=160):
    index = make_index(edges, nodes, nodes, seed=seed)
    return dgl.graph((index.src, index.dst), num_nodes=nodes)


def test_dgl_graphs_and_blocks():
    g = dgl_graph()
    block = dgl.to_block(dgl.in_subgraph(g, torch.arange(7)), torch.arange(7))
    assert block.num_src_nodes() > block.num_dst_nodes()
    bipartite = dgl.heterograph({("user", "buys", "item"): ([0, 1, 2, 2], [0, 0, 1, 2])})
    for graph, per_graph in [(g, False), (block, False), (block, True), (bipartite, False), (bipartite, True)]:
        index = edges_of(graph).index
        z = open_gates(graph.num_edges())
        value, gradient = value_and_gradient(ptd.LowRank(3, per_graph=per_graph, **EXACT), graph, z)
        assert value.item() == pytest.approx(norm_of(index, z, 3))
        torch.testing.assert_close(gradient, dense_gradient(index, z, 3), rtol=1e-5, atol=1e-6)


def test_k_counts_singular_values_of_the_whole_batch_or_of_each_graph():
    parts = [dgl_graph(1, 30, 90), dgl_graph(2, 9, 0), dgl_graph(3, 12, 70), dgl_graph(4, 5, 4)]
    g = dgl.batch(parts)
    z = open_gates(g.num_edges())
    pieces = z.split([part.num_edges() for part in parts])
    whole = ptd.LowRank(3, **EXACT)
    assert whole(g, z).item() == pytest.approx(norm_of(edges_of(g).index, z, 3))
    each = ptd.LowRank(3, per_graph=True, **EXACT)
    value, gradient = value_and_gradient(each, g, z)
    indices = [edges_of(part).index for part in parts]
    assert value.item() == pytest.approx(sum(norm_of(i, x, 3) for i, x in zip(indices, pieces)))
    want = [dense_gradient(i, x, 3) for i, x in zip(indices, pieces) if len(x) > 4]
    torch.testing.assert_close(gradient[:-4], torch.cat(want), rtol=1e-5, atol=1e-6)
    single = ptd.LowRank(3, per_graph=True, **EXACT)(parts[0], pieces[0])  # a graph that is no batch
    assert single.item() == pytest.approx(norm_of(indices[0], pieces[0], 3))


def test_a_batch_resumes_and_notices_new_sizes():
    parts = [dgl_graph(seed, 30 + seed, 200) for seed in range(3)]
    g = dgl.batch(parts)
    z = open_gates(600, dtype=torch.float32)
    rank = ptd.LowRank(2, per_graph=True)
    rank(g, z)
    for other in copies(rank):
        want = value_and_gradient(copy.deepcopy(rank), g, z)
        assert all(torch.equal(x, y) for x, y in zip(want, value_and_gradient(other, g, z)))
    apart = rank(g, z)
    g.set_batch_num_nodes(torch.tensor([93]))
    g.set_batch_num_edges(torch.tensor([600]))
    assert rank(g, z) < apart


def test_evaluation_before_training():
    index = make_index(300, 40, 40)
    rank, z = ptd.LowRank(2), open_gates(300)
    with torch.inference_mode():
        rank(index, z)
    assert value_and_gradient(rank, index, z)[1].any()


def test_gradients_are_made_only_where_they_are_wanted():
    index = make_index(300, 40, 40)
    z = open_gates(300).requires_grad_()
    rank = ptd.LowRank(2)
    with torch.no_grad():
        assert not rank(index, z).requires_grad
    assert not rank(index, z.detach()).requires_grad
    _, once = value_and_gradient(copy.deepcopy(rank), index, z)
    (3 * rank(index, z)).backward()
    torch.testing.assert_close(z.grad, 3 * once)
    (grad,) = torch.autograd.grad(rank(index, z).square(), z, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        grad.sum().backward()


@pytest.mark.parametrize("method", METHODS)
def test_autocast_changes_nothing(method):
    index = make_index(3_000, 300, 300)
    z = open_gates(3_000, dtype=torch.float32)
    want = value_and_gradient(ptd.LowRank(3, method=method), index, z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = value_and_gradient(ptd.LowRank(3, method=method), index, z)
    assert all(torch.equal(x, y) for x, y in zip(want, got))


def test_a_compiled_model_may_contain_it():
    index = make_index(300, 40, 40)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rank = ptd.LowRank(2, **EXACT)

        def forward(self, logits):
            return 2 * self.rank(index, torch.sigmoid(logits))

    results = []
    for model in (Model(), torch.compile(Model(), backend="aot_eager")):
        logits = open_gates(300).requires_grad_()
        model(logits).backward()
        results.append(logits.grad)
    torch.testing.assert_close(*results)


def test_wrong_input_is_refused_with_the_argument_and_the_remedy():
    index = make_index(30, 5, 7)
    for message, options in [
        ("k must be an integer, at least 1; got 0", {"k": 0}),
        ("k must be an integer", {"k": 2.5}),
        ("method must be 'subspace' or 'power'; got 'svd'", {"k": 1, "method": "svd"}),
        ("tol must not be negative", {"k": 1, "tol": -1.0}),
        ("tol must not be negative", {"k": 1, "tol": float("nan")}),
        ("max_sweeps must be at least 1", {"k": 1, "max_sweeps": 0}),
    ]:
        with pytest.raises(ValueError, match=message):
            ptd.LowRank(**options)
    cases: list[Any] = [
        (TypeError, "g must be a DGLGraph or an EdgeIndex; got Tensor", torch.ones(3), torch.rand(30)),
        (TypeError, "z must be a torch.Tensor; got list", index, [1.0] * 30),
        (TypeError, "z must be float32 or float64; got torch.bfloat16", index, torch.rand(30).bfloat16()),
        (ValueError, r"z must be \[E\].*30 edges; got shape \(29,\)", index, torch.rand(29)),
        (ValueError, r"z must be \[E\].*got shape \(30, 2\)", index, torch.rand(30, 2)),
        (ValueError, "z must be on the graph's device, cpu; got meta", index, torch.rand(30, device="meta")),
        (ValueError, "z must be finite", index, torch.full((30,), float("nan"))),
    ]
    rank = ptd.LowRank(2)
    for error, message, g, z in cases:
        with pytest.raises(error, match=message):
            rank(g, z)
    assert rank(index, torch.ones(30)).isfinite()  # an error leaves nothing behind
    hetero = dgl.heterograph({("a", "x", "b"): ([0], [0]), ("b", "y", "a"): ([0], [0])})
    with pytest.raises(ValueError, match="2 edge types"):
        rank(hetero, torch.ones(2))


def test_it_says_what_it_is():
    assert "k=5, method='subspace', tol=0.001" in repr(ptd.LowRank(5))


def shares_while_closing(k, until):
    """The share of the gates' sum that lies between communities, as a gate a pair learns the term alone."""
    data = planted(num_nodes=100, num_pairs=500)
    g, label = data.graph, data.graph.ndata["label"]
    src, dst = g.edges()
    cross = label[src] != label[dst]
    pairs = torch.stack([torch.minimum(src, dst), torch.maximum(src, dst)]).unique(dim=1, return_inverse=True)[1]
    logits = torch.full((500,), 2.0, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    rank, shares = ptd.LowRank(k), []
    while True:
        z = (torch.sigmoid(logits) * 1.2 - 0.1).clamp(0, 1)[pairs]
        shares.append((z[cross].sum() / z.sum()).item())
        if z.mean() < until:
            return shares
        optimizer.zero_grad()
        rank(g, z).backward()
        optimizer.step()


def test_the_term_alone_closes_edges_between_communities():
    shares = shares_while_closing(k=32, until=0.5)
    assert shares[0] == pytest.approx(0.21, abs=1e-3)
    assert shares[-1] < 0.189  # what the paper reports


def test_with_few_values_it_closes_edges_within_communities():
    """K near the number of communities: the largest singular vectors are the communities."""
    assert shares_while_closing(k=5, until=0.5)[-1] > 0.25

"""Common neighbours against the plain-torch twin: odd sizes, hubs, parallel edges, wrong input."""

import time

import pytest
import torch

import dgl_ptdnet as ptd
from dgl_ptdnet.ops import common_neighbours


def sorted_index(edges, nodes, *, seed=0, hub=False):
    generator = torch.Generator().manual_seed(seed)
    src, dst = torch.randint(0, max(1, nodes), (2, edges), generator=generator)
    if hub:  # two destinations have nearly all edges
        dst[: edges - edges // 8] = torch.arange(edges - edges // 8) % 2
    src, order = src.sort()
    return ptd.EdgeIndex(src, dst[order], nodes, nodes)


def pairs_of(count, nodes, seed=1):
    return torch.randint(0, nodes, (2, count), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("hub", [False, True])
@pytest.mark.parametrize(
    ("edges", "nodes", "pairs"), [(1, 1, 1), (7, 5, 3), (300, 40, 513), (4001, 63, 1025), (900, 500, 2000)]
)
def test_common_neighbours_are_those_of_the_twin(edges, nodes, pairs, hub):
    index, (u, v) = sorted_index(edges, nodes, hub=hub and nodes > 1), pairs_of(pairs, nodes)  # with parallel edges
    weight = torch.rand(edges, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for weights in (None, weight):
        got, want = common_neighbours(index, u, v, weights), ptd.reference.common_neighbours(index, u, v, weights)
        torch.testing.assert_close(got, want, atol=1e-12, rtol=1e-12)
    assert bool(want.any()) or edges < 10


@pytest.mark.parametrize("degree", [0, 1, 2, 16, 17, 100])
def test_a_long_list_is_searched_at_every_place(degree):
    """Node 0 has even sources and node 1 a few of any: among them the first, the last and none."""
    even = torch.arange(0, 2 * degree, 2)
    few = torch.tensor([0, 1, degree, degree + 1, 2 * degree - 2, 2 * degree - 1, 2 * degree + 9]).clamp(min=0).unique()
    src = torch.cat([even, few])
    dst = torch.cat([torch.zeros_like(even), torch.ones_like(few)])
    src, order = src.sort(stable=True)
    index = ptd.EdgeIndex(src, dst[order], 400, 400)
    u, v = torch.tensor([[0, 1, 0, 1], [1, 0, 0, 1]])
    both = len(set(even.tolist()) & set(few.tolist()))
    assert common_neighbours(index, u, v).tolist() == [both, both, degree, len(few)]


def test_no_edges_or_no_pairs_give_zeros_or_nothing():
    none = torch.zeros(0, dtype=torch.int64)
    index = ptd.EdgeIndex(none, none, 4, 4)
    assert common_neighbours(index, *pairs_of(9, 4)).tolist() == [0] * 9
    assert common_neighbours(ptd.EdgeIndex(none, none, 0, 0), none, none).shape == (0,)
    assert common_neighbours(sorted_index(30, 4), none, none).shape == (0,)


def test_bits_do_not_depend_on_threads(threads):
    index, (u, v) = sorted_index(60_000, 2_000, hub=True), pairs_of(20_000, 2_000)
    weight = torch.rand(60_000, dtype=torch.float64)
    found = []
    for number in (1, 2, 5):
        threads(number)
        found.append(common_neighbours(index, u, v, weight))
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_wrong_input_raises_an_error_that_names_it():
    index, good = sorted_index(30, 4), torch.tensor([0, 1])
    cases = [
        (IndexError, r"u\[1\] = 4 is out of range: .*\. Pass nodes of the graph", (index, torch.tensor([0, 4]), good)),
        (IndexError, r"v\[0\] = -1 is out of range", (index, good, torch.tensor([-1, 0]))),
        (TypeError, r"u must be torch\.int64", (index, good.int(), good)),
        (ValueError, r"v must be \[pairs\] with 2 entries", (index, good, good[:1])),
        (ValueError, r"weight must be \[E\] with E = 30", (index, good, good, torch.ones(29))),
        (ValueError, "in ascending order", (ptd.EdgeIndex(good.flip(0), good * 0, 2, 2), good, good)),
    ]
    for kind, message, arguments in cases:
        with pytest.raises(kind, match=message):
            common_neighbours(*arguments)
    assert common_neighbours(index, good, good, torch.ones(30)).dtype == torch.float64


def test_a_hub_costs_little():
    leaves = 150_000
    hub, last = torch.zeros(leaves, dtype=torch.int64), torch.full((leaves,), leaves + 1)
    leaf = torch.arange(1, leaves + 1)
    src, dst = torch.cat([hub, leaf, last, leaf]), torch.cat([leaf, hub, leaf, last])
    src, order = src.sort(stable=True)
    index = ptd.EdgeIndex(src, dst[order], leaves + 2, leaves + 2)
    begin = time.process_time()
    common = common_neighbours(index, hub, leaf)  # the hub's list is walked 150,000 times, or searched
    assert time.process_time() - begin < 2
    assert not common.any()

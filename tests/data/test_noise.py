"""Noise edges."""

import dgl
import pytest
import torch
from graphs import pair_set, real, real_data, small_graph
from hypothesis import given, settings, strategies as st

from dgl_ptdnet import data
from dgl_ptdnet.data import add_noise_edges
from dgl_ptdnet.data.names import NOISE_KINDS


@settings(deadline=None, max_examples=100)
@given(
    num_nodes=st.integers(3, 60),
    share=st.floats(0, 1),
    noise=st.floats(0, 1),
    kind=st.sampled_from(NOISE_KINDS),
    seed=st.integers(0, 2**32),
    small_ids=st.booleans(),
)
def test_noise_joins_as_many_unlinked_pairs_as_asked_for(num_nodes, share, noise, kind, seed, small_ids):
    g = small_graph(num_nodes, int(share * num_nodes * (num_nodes - 1) / 2), seed % 1000)
    g = g.int() if small_ids else g
    g.edata["weight"] = torch.rand(g.num_edges())
    label = g.ndata["label"]
    every = {(u, v) for u in range(num_nodes) for v in range(u + 1, num_nodes)}
    free = every - pair_set(g)
    if kind == "heterophilous":
        free = {(u, v) for u, v in free if label[u] != label[v]}
    count = int(noise * len(free))
    noisy = add_noise_edges(g, count, seed=seed, kind=kind)

    old = g.num_edges()
    assert noisy.num_edges() == old + 2 * count
    assert noisy.idtype == g.idtype
    (u, v), (gu, gv) = noisy.edges(), g.edges()
    assert torch.equal(u[:old], gu)
    assert torch.equal(v[:old], gv)
    assert torch.equal(noisy.edata["noise"], torch.arange(len(u)) >= old)
    assert torch.equal(noisy.edata["weight"][:old], g.edata["weight"])
    new = {*zip(torch.minimum(u, v)[old:].tolist(), torch.maximum(u, v)[old:].tolist())}
    assert len(new) == count
    assert new <= free
    assert torch.equal(u[old : old + count], v[old + count :])
    assert torch.equal(v[old : old + count], u[old + count :])
    assert all(torch.equal(noisy.ndata[field], g.ndata[field]) for field in ("feat", "label"))
    assert "noise" not in g.edata

    again = add_noise_edges(g, count, seed=seed, kind=kind)
    assert all(torch.equal(a, b) for a, b in zip(noisy.edges(), again.edges()))
    with pytest.raises(ValueError, match=f"but there are only {len(free):,}"):
        add_noise_edges(g, len(free) + 1, seed=seed, kind=kind)


def test_noise_on_noise_keeps_the_marks():
    g = add_noise_edges(add_noise_edges(small_graph(), 5), 7, seed=1)
    assert g.edata["noise"].nonzero().flatten().tolist() == list(range(60, 84))
    assert len(pair_set(g)) == 42


def test_noise_depends_on_the_seed_and_not_on_threads(threads):
    g = data.random_graph(2000, 20000).graph
    for kind in NOISE_KINDS:
        results = []
        for seed, count in ((0, 1), (0, 2), (1, 2)):
            threads(count)
            results.append(torch.stack(add_noise_edges(g, 3000, seed=seed, kind=kind).edges()))
        assert torch.equal(results[0], results[1])
        assert not torch.equal(results[0], results[2])


def noise_ends(g, kind, count=20000):
    noisy = add_noise_edges(g, count, kind=kind)
    return noisy.find_edges(noisy.edata["noise"].nonzero().flatten())


def test_each_kind_of_noise_is_what_its_name_says():
    g = data.planted(num_nodes=3000, num_pairs=6000).graph
    label, feat, degree = g.ndata["label"], torch.nn.functional.normalize(g.ndata["feat"]), g.in_degrees().double()
    ends = {kind: noise_ends(g, kind) for kind in NOISE_KINDS}
    same = {kind: (label[u] == label[v]).float().mean().item() for kind, (u, v) in ends.items()}
    cosine = {kind: (feat[u] * feat[v]).sum(1) for kind, (u, v) in ends.items()}
    mean = {kind: degree[u].mean().item() for kind, (u, _) in ends.items()}
    assert same["uniform"] == pytest.approx(0.2, abs=0.02)
    assert same["heterophilous"] == 0
    assert cosine["similar"].min() > cosine["uniform"].mean() + cosine["uniform"].std()
    assert mean["uniform"] == pytest.approx(degree.mean().item(), rel=0.02)
    assert mean["hubs"] == pytest.approx(((degree + 1) * degree).sum().item() / (degree + 1).sum().item(), rel=0.02)


def test_wrong_noise_is_refused():
    g = small_graph()
    with pytest.raises(ValueError, match="kind must be one of uniform, heterophilous, similar, hubs; got 'odd'"):
        add_noise_edges(g, 1, kind="odd")
    with pytest.raises(ValueError, match="count must not be negative"):
        add_noise_edges(g, -1)
    with pytest.raises(ValueError, match="one type of nodes"):
        add_noise_edges(dgl.heterograph({("a", "x", "b"): ([0], [0])}), 1)
    g.ndata["label"][0] = -1
    with pytest.raises(ValueError, match="one known label for each node"):
        add_noise_edges(g, 1, kind="heterophilous")
    for kind, field in (("heterophilous", "label"), ("similar", "feat")):
        g.ndata.pop(field)
        with pytest.raises(ValueError, match=rf'kind="{kind}" needs g.ndata\["{field}"\]'):
            add_noise_edges(g, 1, kind=kind)


def test_graphs_without_pairs_take_no_noise():
    for num_nodes in (0, 1):
        g = dgl.graph(([], []), num_nodes=num_nodes)
        assert add_noise_edges(g, 0).num_edges() == 0
        with pytest.raises(ValueError, match="there are only 0"):
            add_noise_edges(g, 1)


@real_data
def test_cora_takes_20000_noise_edges_of_every_kind():
    g = real("cora").graph
    for kind in NOISE_KINDS:
        noisy = add_noise_edges(g, 20000, kind=kind)
        assert noisy.num_edges() == 10556 + 40000
        assert len(pair_set(noisy)) == 5278 + 20000

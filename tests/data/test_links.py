"""Held-out edges for link prediction."""

import dgl
import pytest
import torch
from graphs import pair_set, real, real_data, small_graph
from hypothesis import given, settings, strategies as st

from dgl_ptdnet.data import split_edges


def pairs_of(pairs):
    return {*map(tuple, pairs.sort(1).values.tolist())}


@settings(deadline=None, max_examples=40)
@given(num_nodes=st.integers(8, 60), share=st.floats(0, 0.8), seed=st.integers(0, 2**32), loops=st.booleans())
def test_held_out_edges_do_not_leak(num_nodes, share, seed, loops):
    g = small_graph(num_nodes, int(share * num_nodes * (num_nodes - 1) / 2), seed % 1000)
    g = dgl.add_self_loop(g) if loops else g
    linked = pair_set(g)
    split = split_edges(g, seed)
    train, val, val_not, test, test_not = (
        pair_set(x) if i == 0 else pairs_of(x) if len(x) else set() for i, x in enumerate(split)
    )
    assert (len(val), len(test)) == (int(0.05 * len(linked)), int(0.1 * len(linked)))
    assert (len(val_not), len(test_not)) == (len(val), len(test))
    assert not train & (val | test)
    assert not val & test
    assert train | val | test == linked
    assert not (val_not | test_not) & linked
    assert not val_not & test_not
    u, v = split.graph.edges()
    assert not (u == v).any()
    assert split.graph.num_edges() == 2 * len(train)
    assert split.graph.has_edges_between(v, u).all()
    assert torch.equal(split.graph.ndata["feat"], g.ndata["feat"])
    again = split_edges(g, seed)
    assert all(torch.equal(a, b) for a, b in zip(split[1:], again[1:]))


def test_a_split_that_leaves_no_edges_is_refused():
    for val, test in ((0.5, 0.5), (-0.1, 0.1), (0, 1)):
        with pytest.raises(ValueError, match="val and test must be shares"):
            split_edges(small_graph(), val=val, test=test)


@real_data
def test_cora_is_split_as_gae_does():
    split = split_edges(real("cora").graph)
    assert [len(x) for x in split[1:]] == [263, 263, 527, 527]
    assert split.graph.num_edges() == 2 * (5278 - 263 - 527)

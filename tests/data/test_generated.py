"""Generated graphs."""

import time

import pytest
import torch
from graphs import MASKS, assert_whole, pair_set

from dgl_ptdnet import data
from dgl_ptdnet.data import load
from dgl_ptdnet.data.undirected import linked_pairs


def same_share(g):
    u, v = g.edges()
    return (g.ndata["label"][u] == g.ndata["label"][v]).double().mean().item()


@pytest.mark.parametrize("share", [0, 0.3, 0.5, 0.6, 0.7, 0.85, 1])
def test_synthetic_data_is_as_the_paper_says(share):
    dataset = data.synthetic(same_label=share)
    assert_whole(dataset)
    g = dataset.graph
    assert (dataset.num_classes, dataset.num_feats, g.num_edges()) == (5, 30, 10000)
    assert 950 < g.num_nodes() < 1050
    sizes = [int(g.ndata[mask].sum()) for mask in MASKS]
    assert sizes == [g.num_nodes() - 2 * (g.num_nodes() // 5), g.num_nodes() // 5, g.num_nodes() // 5]
    assert len(pair_set(g)) == 5000
    u, v = g.edges()
    assert g.has_edges_between(v, u).all()
    assert not (u == v).any()
    assert same_share(g) == pytest.approx(share, abs=1e-12)


def test_synthetic_nodes_with_good_features_have_edges_to_other_labels():
    g = data.synthetic().graph
    feat, label = g.ndata["feat"], g.ndata["label"]
    centroids = torch.stack([feat[label == k].mean(0) for k in range(5)])
    distance = (feat - centroids[label]).norm(dim=1)
    u, v = g.edges()
    other = torch.zeros(g.num_nodes()).index_add(0, u, (label[u] != label[v]).float()) / g.out_degrees().clamp(min=1)
    third = g.num_nodes() // 3
    order = distance.argsort()
    assert other[order[:third]].mean() > other[order[-third:]].mean() + 0.2


def test_planted_partitions_have_the_share_of_cross_edges_asked_for():
    for cross in (0, 0.21, 0.6):
        dataset = data.planted(cross=cross, num_nodes=503, num_pairs=2000, num_classes=4)
        assert_whole(dataset)
        assert dataset.graph.num_nodes() == 503
        assert len(pair_set(dataset.graph)) == 2000
        assert same_share(dataset.graph) == pytest.approx(1 - cross, abs=1e-12)


@pytest.mark.parametrize("make", [data.synthetic, data.planted, lambda seed: data.random_graph(500, 4000, seed=seed)])
def test_generated_graphs_depend_on_the_seed_only(make):
    first, again, other = (make(seed=seed).graph for seed in (0, 0, 1))
    assert torch.equal(torch.stack(first.edges()), torch.stack(again.edges()))
    assert torch.equal(first.ndata["feat"], again.ndata["feat"])
    assert not torch.equal(first.ndata["feat"][:400], other.ndata["feat"][:400])


def test_loading_a_generated_graph_by_name_takes_the_seed():
    assert torch.equal(load("Synthetic", seed=4).graph.ndata["feat"], data.synthetic(4).graph.ndata["feat"])
    assert torch.equal(load("planted", seed=4).graph.ndata["feat"], data.planted(4).graph.ndata["feat"])


def test_a_dense_synthetic_graph_can_have_nearly_all_pairs():
    g = data.synthetic(class_size=20, num_pairs=1700).graph
    assert len(pair_set(g)) == 1700
    with pytest.raises(ValueError, match="pairs of nodes of the same label without an edge are needed, but there are"):
        data.synthetic(class_size=20, num_pairs=5000)


def test_random_graphs_are_as_large_as_asked_for_and_homophilous():
    start = time.process_time()
    dataset = data.random_graph(100_000, 1_000_000, num_feats=16, num_classes=10)
    assert time.process_time() - start < 20
    assert_whole(dataset)
    g = dataset.graph
    assert (g.num_nodes(), g.num_edges(), dataset.num_feats, dataset.num_classes) == (100_000, 1_000_000, 16, 10)
    assert len(linked_pairs(g)) == 500_000
    assert same_share(g) == pytest.approx(0.7, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data.synthetic(same_label=1.2), "same_label must be a share"),
        (lambda: data.planted(cross=-0.1), "cross must be a share"),
        (lambda: data.random_graph(100, 7), "num_edges must be even"),
    ],
)
def test_wrong_parameters_of_generated_graphs_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()

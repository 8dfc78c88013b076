"""Graphs with features, labels and splits."""

import dgl
import pytest
import torch
from graphs import MASKS, assert_whole, small_graph

from dgl_ptdnet.data import Dataset, load


def test_from_graphs_splits_60_20_20_by_seed_and_does_not_change_the_graph():
    g = small_graph(100, 200)
    g.ndata["feat"] = g.ndata["feat"].double()
    first, again, other = (Dataset.from_graphs(g, seed=seed) for seed in (0, 0, 1))
    assert_whole(first)
    assert [int(first.graph.ndata[mask].sum()) for mask in MASKS] == [60, 20, 20]
    assert all(torch.equal(first.graph.ndata[mask], again.graph.ndata[mask]) for mask in MASKS)
    assert not torch.equal(first.graph.ndata["train_mask"], other.graph.ndata["train_mask"])
    assert {*g.ndata} == {"feat", "label"}
    assert g.ndata["feat"].dtype == torch.float64


def test_nodes_without_a_label_are_in_no_split():
    g = small_graph(100, 200)
    g.ndata["label"][:50] = -1
    dataset = Dataset.from_graphs(g)
    assert_whole(dataset)
    assert [int(dataset.graph.ndata[mask].sum()) for mask in MASKS] == [30, 10, 10]
    assert not any(dataset.graph.ndata[mask][:50].any() for mask in MASKS)


def test_several_graphs_are_split_as_wholes():
    graphs = [small_graph(10 + i, 12, seed=i) for i in range(10)]
    for g in graphs:
        g.ndata["label"] = torch.randint(0, 2, (g.num_nodes(), 6))
    dataset = Dataset.from_graphs(graphs, name="many")
    assert_whole(dataset)
    assert (dataset.num_classes, dataset.multilabel) == (6, True)
    assert [sum(bool(g.ndata[mask].all()) for g in dataset.graphs) for mask in MASKS] == [6, 2, 2]
    with pytest.raises(ValueError, match="many has 10 graphs, not one"):
        _ = dataset.graph


def test_of_several_splits_the_seed_takes_one():
    g = small_graph(30)
    split = torch.stack([torch.randperm(30) for _ in range(4)], 1)
    for i, mask in enumerate(MASKS):
        g.ndata[mask] = (split // 10 == i).to(torch.uint8)
    for seed in range(6):
        chosen = Dataset.from_graphs(g, seed=seed)
        assert_whole(chosen)
        assert torch.equal(chosen.graph.ndata["val_mask"], split[:, seed % 4] // 10 == 1)


def break_graph(g, how):
    masks = {mask: torch.arange(g.num_nodes()) % 3 == i for i, mask in enumerate(MASKS)}
    if how in ("feat", "label"):
        g.ndata.pop(how)
    elif how == "nan":
        g.ndata["feat"][3, 1] = float("nan")
    elif how == "flat":
        g.ndata["feat"] = g.ndata["feat"][:, 0]
    elif how == "half":
        g.ndata["label"] = g.ndata["label"] + 0.5
    elif how == "numbers":
        g.ndata["label"] = torch.full((g.num_nodes(), 4), 2)
    elif how == "unlabelled":
        g.ndata["label"][:] = -1
    elif how == "two masks":
        g.ndata.update({mask: masks[mask] for mask in MASKS[:2]})
    elif how == "overlap":
        g.ndata.update({**masks, "test_mask": masks["val_mask"]})
    elif how == "empty":
        g.ndata.update({**masks, "val_mask": masks["val_mask"] & False})
    elif how == "masked unknown":
        g.ndata.update(masks)
        g.ndata["label"][7] = -1
    return g


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("feat", r'g.ndata\["feat"\] is missing \(there is: label\). Set g.ndata\["feat"\]'),
        ("label", r'g.ndata\["label"\] is missing .* Set .* classes, or \[N, C\] zeros and ones'),
        ("nan", "finite numbers"),
        ("flat", r"shape \[N, F\]; got shape \(20,\)"),
        ("half", "class numbers"),
        ("numbers", "zeros and ones"),
        ("unlabelled", "0 nodes with a label are too few"),
        ("two masks", '"test_mask" is missing. Give all three masks, or none'),
        ("overlap", "node 1 is in more than one"),
        ("empty", '"val_mask" is empty'),
        ("masked unknown", "node 7 is in a mask, but its label is unknown"),
    ],
)
def test_a_graph_with_a_wrong_field_is_told_what_to_do(how, message, tmp_path):
    g = break_graph(small_graph(), how)
    with pytest.raises(ValueError, match=message):
        Dataset.from_graphs(g)
    dgl.save_graphs(str(tmp_path / "mine.bin"), [g])
    with pytest.raises(ValueError, match="mine: "):
        load(str(tmp_path / "mine.bin"))


def test_graphs_that_do_not_fit_together_are_refused():
    plain, masked = small_graph(), Dataset.from_graphs(small_graph()).graph
    with pytest.raises(ValueError, match="differ in the width"):
        Dataset.from_graphs([plain, plain, small_graph(feats=5)])
    with pytest.raises(ValueError, match="masks to all or to none"):
        Dataset.from_graphs([plain, masked])
    with pytest.raises(ValueError, match="2 graphs are too few"):
        Dataset.from_graphs([plain, plain])
    with pytest.raises(ValueError, match="there is no graph"):
        Dataset.from_graphs([])
    two = dgl.heterograph({("a", "x", "b"): ([0], [0])})
    with pytest.raises(ValueError, match=r"dgl\.to_homogeneous"):
        Dataset.from_graphs(two)

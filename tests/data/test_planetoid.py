"""Cora, Citeseer and Pubmed from their files."""

import pytest
import torch
from graphs import CITATIONS, MASKS, copy, real, real_data


@real_data
@pytest.mark.parametrize("name", CITATIONS)
def test_citation_graphs_are_bit_by_bit_those_of_dgl(name, tmp_path):
    copy(name, tmp_path)
    ours, theirs = real(name).graph, CITATIONS[name](raw_dir=str(tmp_path), verbose=False)[0]
    for mine, dgls in zip(ours.edges(), theirs.edges()):
        assert torch.equal(mine, dgls)
    assert {*ours.ndata} == {*theirs.ndata}
    for field, value in theirs.ndata.items():
        assert torch.equal(ours.ndata[field], value), field


@real_data
def test_citeseer_has_15_nodes_without_features_and_they_are_in_no_split():
    g = real("citeseer").graph
    empty = (g.ndata["feat"] == 0).all(1)
    assert empty.sum() == 15
    assert not any(g.ndata[mask][empty].any() for mask in MASKS)

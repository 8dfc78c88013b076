"""Small graphs and copies of published data, for the tests of data."""

import functools
import shutil
from pathlib import Path

import dgl
import numpy as np
import pytest
import torch

from dgl_ptdnet.data import load
from dgl_ptdnet.data.random_pairs import draw_pairs, generator
from dgl_ptdnet.data.undirected import ends_of_pairs, linked_pairs

SHARED = Path(__file__).parents[2] / "shared" / "datasets"


FOLDERS = {
    "cora": "cora_v2_d697a464",
    "citeseer": "citeseer_d6836239",
    "pubmed": "pubmed_35464cad",
    "ppi": "ppi_4b14ad03",
}


CITATIONS = {
    "cora": dgl.data.CoraGraphDataset,
    "citeseer": dgl.data.CiteseerGraphDataset,
    "pubmed": dgl.data.PubmedGraphDataset,
}


MASKS = ("train_mask", "val_mask", "test_mask")


real_data = pytest.mark.skipif(not SHARED.is_dir(), reason=f"there is no {SHARED}")


@functools.cache
def real(name):
    return load(name, SHARED)


def copy(name, folder, target=None):
    """A copy of a raw folder that may be written to."""
    target = folder / (target or FOLDERS[name])
    target.mkdir(parents=True)
    for file in (SHARED / FOLDERS[name]).iterdir():
        shutil.copyfile(file, target / file.name)
    return target


def small_graph(num_nodes=20, num_pairs=30, seed=0, *, feats=4, classes=3):
    u, v = draw_pairs(generator(seed, "test"), num_pairs, np.arange(num_nodes))
    g = dgl.graph((np.concatenate([u, v]), np.concatenate([v, u])), num_nodes=num_nodes)
    torch.manual_seed(seed)
    g.ndata["feat"] = torch.rand(num_nodes, feats)
    g.ndata["label"] = torch.arange(num_nodes) % classes
    return g


def pair_set(g):
    """The linked pairs of nodes, the smaller node first."""
    return {*zip(*(x.tolist() for x in ends_of_pairs(linked_pairs(g))))}


def assert_whole(dataset):
    """Everything that :class:`Dataset` promises."""
    for g in dataset.graphs:
        n = g.num_nodes()
        assert g.ndata["feat"].dtype == torch.float32
        assert g.ndata["feat"].shape == (n, dataset.num_feats)
        label = g.ndata["label"]
        if dataset.multilabel:
            assert label.dtype == torch.float32
            assert label.shape == (n, dataset.num_classes)
            assert ((label == 0) | (label == 1)).all()
        else:
            assert label.dtype == torch.int64
            assert label.shape == (n,)
            assert label.max() < dataset.num_classes
        masks = torch.stack([g.ndata[mask] for mask in MASKS])
        assert masks.dtype == torch.bool
        assert masks.shape == (3, n)
        assert masks.sum(0).max() <= 1
    assert dataset.metric == ("micro-F1" if dataset.multilabel else "accuracy")
    assert dataset.inductive == (len(dataset.graphs) > 1)


def some_features(nodes, feats, kind, seed=0):
    """Features of nodes: dense, or zeros and ones of which a few or many are ones, with some rows of zeros."""
    x = torch.randn(nodes, feats, generator=torch.Generator().manual_seed(seed))
    if kind != "dense":
        x = (x > (1.5 if kind == "few words" else 0.8)).float()
        x[::5] = 0  # rows of zeros
    return x

"""Cora, Citeseer and Pubmed from the files that DGL downloads: ``ind.NAME.x`` and so on."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import torch

from .._dgl import dgl
from .dataset import Dataset
from .pickles import read_pickle


def read_planetoid(folder: Path, name: str) -> Dataset:
    """Reads a citation graph, equal to that of DGL's class: order of edges, row-normalised features, public split.

    Nodes without features (15 in Citeseer) get features and label 0, and are in no split.
    """
    prefix = next(iter(sorted(folder.glob("ind.*.allx"))), folder / f"ind.{name}.allx").name[: -len("allx")]
    x, tx, allx, y, ty, ally, links = (
        read_pickle(folder / f"{prefix}{part}") for part in ("x", "tx", "allx", "y", "ty", "ally", "graph")
    )
    test = np.loadtxt(folder / f"{prefix}test.index", dtype=np.int64)
    num_nodes = int(test.max()) + 1
    feat = np.zeros((num_nodes, x.shape[1]), np.float32)
    onehot = np.zeros((num_nodes, y.shape[1]))
    for rows, features, labels in ((np.arange(allx.shape[0]), allx, ally), (test, tx, ty)):
        total = features @ np.ones((features.shape[1], 1), features.dtype)  # in DGL's order, for equal bits
        feat[rows] = features.multiply(np.divide(1, total, out=np.zeros_like(total), where=total != 0)).toarray()
        onehot[rows] = labels

    u = np.repeat(np.fromiter(links, np.int64), [len(ends) for ends in links.values()])
    v = np.fromiter(itertools.chain.from_iterable(links.values()), np.int64)
    both = np.stack([u * num_nodes + v, v * num_nodes + u], 1).ravel()
    edges, first = np.unique(both, return_index=True)
    edges = edges[np.lexsort((first, edges // num_nodes))]  # DGL's order: by source, then as in the file
    g = dgl.graph((torch.from_numpy(edges // num_nodes), torch.from_numpy(edges % num_nodes)), num_nodes=num_nodes)

    g.ndata["feat"], g.ndata["label"] = torch.from_numpy(feat), torch.from_numpy(onehot.argmax(1))
    train = np.arange(y.shape[0])
    for split, rows in (("train", train), ("val", len(train) + np.arange(500)), ("test", test)):
        g.ndata[f"{split}_mask"] = torch.zeros(num_nodes, dtype=torch.bool)
        g.ndata[f"{split}_mask"][rows] = True
    return Dataset(name, [g], onehot.shape[1], multilabel=False)

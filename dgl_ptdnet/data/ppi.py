"""PPI from the files that DGL downloads: ``train_graph.json``, ``train_feats.npy`` and so on."""

from __future__ import annotations

import itertools
import json
import operator
from pathlib import Path

import numpy as np
import torch

from .dataset import SPLITS, Dataset
from .undirected import undirected


def read_ppi(folder: Path, name: str) -> Dataset:
    """Reads the graphs of the three splits, in this order, with the self-loops of the files.

    Files ``*_label_exact.npy`` become ``ndata["label_exact"]``; without them every label counts as exact. DGL's own
    reader needs networkx < 3.4.
    """
    graphs = []
    for split, prefix in zip(SPLITS, ("train", "valid", "test")):
        feats, labels, graph_id = (np.load(folder / f"{prefix}_{x}.npy") for x in ("feats", "labels", "graph_id"))
        exact_file = folder / f"{prefix}_label_exact.npy"
        exact = np.load(exact_file) if exact_file.exists() else np.ones(len(labels), bool)
        links = json.loads((folder / f"{prefix}_graph.json").read_bytes())["links"]
        ends = itertools.chain.from_iterable(map(operator.itemgetter("source", "target"), links))
        edges = np.fromiter(ends, np.int64, 2 * len(links)).reshape(-1, 2)
        of_graph = graph_id[edges[:, 0]]
        for part in np.unique(graph_id):
            nodes = np.flatnonzero(graph_id == part)
            local = np.searchsorted(nodes, edges[of_graph == part])
            g = undirected(local[:, 0], local[:, 1], len(nodes))
            g.ndata["feat"] = torch.from_numpy(feats[nodes]).float()
            g.ndata["label"] = torch.from_numpy(labels[nodes]).float()
            g.ndata["label_exact"] = torch.from_numpy(exact[nodes])
            for other in SPLITS:
                g.ndata[f"{other}_mask"] = torch.full((len(nodes),), other == split)
            graphs.append(g)
    return Dataset(name, graphs, graphs[0].ndata["label"].shape[1], multilabel=True)

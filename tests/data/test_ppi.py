"""PPI from its files."""

import json

import dgl
import numpy as np
import torch
from graphs import MASKS, copy, real, real_data

from dgl_ptdnet.data import load


@real_data
def test_ppi_has_20_2_2_graphs_with_self_loops_and_marks_its_exact_labels():
    graphs = real("ppi").graphs
    of_split = [[g for g in graphs if g.ndata[mask].any()] for mask in MASKS]
    assert [len(part) for part in of_split] == [20, 2, 2]
    for mask, part in zip(MASKS, of_split):
        assert all(g.ndata[mask].all() for g in part)
    exact = [sum(int(g.ndata["label_exact"].sum()) for g in part) for part in of_split]
    assert exact == [27188, 3099, 2936]
    for g in graphs:
        u, v = g.edges()
        assert (u == v).sum() == g.num_nodes()
        assert g.ndata["label_exact"].dtype == torch.bool


@real_data
def test_ppi_is_that_of_dgl(tmp_path):
    folder = copy("ppi", tmp_path)
    theirs = []
    for mode in ("valid", "test"):
        file = folder / f"{mode}_graph.json"  # the key that networkx >= 3.4 looks for
        file.write_text(file.read_text().replace('"links"', '"edges"'))
        theirs += dgl.data.PPIDataset(mode, raw_dir=str(tmp_path)).graphs
    for mine, dgls in zip(real("ppi").graphs[20:], theirs):
        for field in ("feat", "label"):
            assert torch.equal(mine.ndata[field], dgls.ndata[field])
        edges = (torch.stack(g.edges())[:, np.lexsort([x.numpy() for x in g.edges()])] for g in (mine, dgls))
        assert torch.equal(*edges)


@real_data
def test_ppi_without_marks_takes_every_label_for_exact(tmp_path):
    folder = copy("ppi", tmp_path, "ppi")
    for split in ("train", "valid", "test"):
        (folder / f"{split}_label_exact.npy").unlink()
        for part in ("feats", "labels", "graph_id"):  # the first 5 nodes, each split a graph
            rows = np.load(folder / f"{split}_{part}.npy")[:5]
            np.save(folder / f"{split}_{part}.npy", rows)
        links = [{"source": 0, "target": 1}, {"source": 2, "target": 2}]
        (folder / f"{split}_graph.json").write_text(json.dumps({"links": links}))
    dataset = load("ppi", tmp_path)
    assert all(g.ndata["label_exact"].all() for g in dataset.graphs)
    assert [x.tolist() for x in dataset.graphs[0].edges()] == [[0, 1, 2], [1, 0, 2]]

"""Data sets, files, generated graphs, noise and held-out edges."""

import functools
import http.server
import json
import pickle
import shutil
import threading
import time
from pathlib import Path

import dgl
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dgl_ptdnet import data
from dgl_ptdnet.data import Dataset, add_noise_edges, available, load, split_edges
from dgl_ptdnet.data.noise import KINDS
from dgl_ptdnet.data.pairs import draw_pairs, generator, linked_pairs
from dgl_ptdnet.data.pickles import read_pickle

SHARED = Path(__file__).parents[1].parent / "shared" / "datasets"
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
    return {*linked_pairs(g).tolist()}


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


# Published data sets


@real_data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "feats", "classes", "split"),
    [
        ("cora", 2708, 10556, 1433, 7, [140, 500, 1000]),
        ("citeseer", 3327, 9228, 3703, 6, [120, 500, 1000]),
        ("pubmed", 19717, 88651, 500, 3, [60, 500, 1000]),
        ("ppi", 56944, 1644208, 50, 121, [44906, 6514, 5524]),
    ],
)
def test_counts_are_the_published_ones(name, nodes, edges, feats, classes, split):
    dataset = real(name)
    assert_whole(dataset)
    assert sum(g.num_nodes() for g in dataset.graphs) == nodes
    assert sum(g.num_edges() for g in dataset.graphs) == edges
    assert [sum(int(g.ndata[mask].sum()) for g in dataset.graphs) for mask in MASKS] == split
    assert (dataset.num_feats, dataset.num_classes) == (feats, classes)
    row = next(row for row in available(SHARED) if row.name == name)
    assert row == (name, nodes, edges, feats, classes, str(SHARED / FOLDERS[name]))


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


@real_data
@pytest.mark.parametrize("name", FOLDERS)
def test_loading_writes_nothing_and_is_fast(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    copy(name, tmp_path / "data")

    def listing():
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in tmp_path.rglob("*")}

    before, start = listing(), time.process_time()
    load(name.upper(), tmp_path / "data")
    assert time.process_time() - start < 10
    assert listing() == before


@real_data
def test_folders_may_lack_the_hash_and_files_may_have_the_short_name(tmp_path):
    folder = copy("cora", tmp_path / "a", "cora_v2")
    for file in folder.iterdir():
        (tmp_path / "b" / "cora").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, tmp_path / "b" / "cora" / file.name.replace("cora_v2", "cora"))
    for root in ("a", "b"):
        g = load("Cora", str(tmp_path / root)).graph
        assert torch.equal(g.ndata["feat"], real("cora").graph.ndata["feat"])


def test_an_unknown_name_is_told_what_there_is():
    with pytest.raises(ValueError, match=r"no data set 'coral'. There are cora, citeseer, pubmed, ppi, synthetic"):
        load("coral")


def test_a_data_folder_without_the_set_is_told_what_to_put_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no cora_v2_d697a464 \(or cora_v2 or cora\) in .*leave out the data"):
        load("cora", tmp_path)
    (tmp_path / "cora").mkdir()
    with pytest.raises(FileNotFoundError, match=r"cora.*ind\.cora\.x"):
        load("cora", tmp_path)


def test_without_a_network_the_error_names_the_data_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path))
    monkeypatch.setenv("DGL_REPO", "http://127.0.0.1:9/")
    with pytest.raises(ConnectionError, match=r"pubmed cannot be downloaded.*holds pubmed_35464cad.*--data-dir"):
        load("pubmed")


@real_data
def test_dgl_downloads_what_is_not_there_and_our_reader_reads_it(tmp_path, monkeypatch, capsys):
    archive = tmp_path / "web" / "dataset" / "cora_v2"
    shutil.make_archive(str(archive), "zip", copy("cora", tmp_path / "raw"))
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "web"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path / "dgl"))
        monkeypatch.setenv("DGL_REPO", f"http://127.0.0.1:{server.server_address[1]}/")
        g = load("cora").graph
        server.shutdown()
        thread.join()
    assert torch.equal(g.ndata["feat"], real("cora").graph.ndata["feat"])


def test_available_finds_dgls_own_folder_or_says_download(tmp_path, monkeypatch):
    monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path))
    (tmp_path / "citeseer_d6836239").mkdir()
    where = {row.name: row.where for row in available()}
    assert where == {
        "cora": "download",
        "citeseer": str(tmp_path / "citeseer_d6836239"),
        "pubmed": "download",
        "ppi": "download",
        "synthetic": "generated",
        "planted": "generated",
    }


# Pickles


class Call:
    def __init__(self, function, *args):
        self.reduced = function, args

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {0: [x]}])
def test_a_pickle_that_calls_something_is_refused_and_not_executed(protocol, wrap, tmp_path):
    victim, file = tmp_path / "victim", tmp_path / "evil"
    victim.mkdir()
    for function, args in ((shutil.rmtree, (str(victim),)), (eval, ("1",)), (getattr, (1, "real")), (np.load, ("x",))):
        file.write_bytes(pickle.dumps(wrap(Call(function, *args)), protocol))
        with pytest.raises(ValueError, match=rf"evil is not .*asks for \S*{function.__name__}, which is refused"):
            read_pickle(file)
    assert victim.exists()


@pytest.mark.parametrize("content", [b"", b"\x80", b"cos\nsystem\n(S'false'\ntR.", b"\x80\x02]q\x00(K\x01", b"Pid\n."])
def test_a_broken_pickle_is_named(content, tmp_path):
    (tmp_path / "broken").write_bytes(content)
    with pytest.raises(ValueError, match="broken is not a pickle"):
        read_pickle(tmp_path / "broken")


def test_arrays_and_sparse_matrices_of_this_version_are_read(tmp_path):
    matrix = scipy.sparse.random(5, 7, 0.5, format="csr", random_state=0)
    file = tmp_path / "x"
    file.write_bytes(pickle.dumps(matrix, 4))
    assert (read_pickle(file) != matrix).nnz == 0
    file.write_bytes(pickle.dumps(np.arange(6.0).reshape(2, 3), 4))
    assert np.array_equal(read_pickle(file), np.arange(6.0).reshape(2, 3))


# Graphs given in Python


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
        ("masked unknown", "node 7 is in a mask, but its label is not known"),
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


# Files


def test_a_saved_graph_comes_back(tmp_path):
    g = Dataset.from_graphs(small_graph(), seed=3).graph
    dgl.save_graphs(str(tmp_path / "mine.bin"), [g])
    dataset = load(str(tmp_path / "mine.bin"), seed=8)
    assert dataset.name == "mine"
    assert_whole(dataset)
    for field, value in g.ndata.items():
        assert torch.equal(dataset.graph.ndata[field], value), field
    assert all(torch.equal(a, b) for a, b in zip(g.edges(), dataset.graph.edges()))


def heterophilous_arrays(splits=3):
    rng = np.random.default_rng(0)
    part = np.stack([rng.permutation(12) // 4 for _ in range(splits)])
    return {
        "node_features": rng.random((12, 5)),
        "node_labels": np.arange(12) % 4,
        "edges": np.array([[0, 1], [1, 0], [2, 3], [2, 3], [4, 4], [11, 5]]),
        **{f"{name}_masks": part == i for i, name in enumerate(("train", "val", "test"))},
    }


def sparse_arrays():
    adj = scipy.sparse.coo_matrix(([1, 1, 1, 0], ([0, 2, 11, 6], [1, 3, 5, 7])), shape=(12, 12)).tocsr()
    attr = scipy.sparse.random(12, 5, 0.4, format="csr", random_state=0, dtype=np.float32)
    arrays = {"labels": np.arange(12) % 4, "node_names": np.array(["a", None], dtype=object)}
    for prefix, matrix in (("adj", adj), ("attr", attr)):
        arrays.update({f"{prefix}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")})
    return arrays, attr.toarray()


@pytest.mark.parametrize("seed", range(4))
def test_npz_with_edges_and_masks(seed, tmp_path):
    arrays = heterophilous_arrays()
    np.savez(tmp_path / "roman.npz", **arrays)
    dataset = load(str(tmp_path / "roman.npz"), seed=seed)
    assert_whole(dataset)
    g = dataset.graph
    assert (dataset.name, dataset.num_classes) == ("roman", 4)
    assert [x.tolist() for x in g.edges()] == [[0, 1, 2, 3, 4, 5, 11], [1, 0, 3, 2, 4, 11, 5]]
    assert np.array_equal(g.ndata["feat"].numpy(), arrays["node_features"].astype(np.float32))
    assert np.array_equal(g.ndata["test_mask"].numpy(), arrays["test_masks"][seed % 3])


def test_npz_with_arrays_the_other_way_round(tmp_path):
    arrays = heterophilous_arrays()
    np.savez(tmp_path / "one.npz", **arrays)
    turned = {name: x.T if name == "edges" or "masks" in name else x for name, x in arrays.items()}
    np.savez(tmp_path / "two.npz", **turned)
    one, two = (load(str(tmp_path / f"{name}.npz"), seed=1).graph for name in ("one", "two"))
    assert all(torch.equal(a, b) for a, b in zip(one.edges(), two.edges()))
    assert all(torch.equal(one.ndata[mask], two.ndata[mask]) for mask in MASKS)


def test_npz_of_other_lengths_is_named(tmp_path):
    arrays, _ = sparse_arrays()
    np.savez(tmp_path / "odd.npz", **{**arrays, "adj_data": np.ones(99)})
    with pytest.raises(ValueError, match=r"odd.npz cannot be read \(IndexError: .* as dgl_ptdnet.data.load says\?"):
        load(str(tmp_path / "odd.npz"))


@pytest.mark.parametrize("dense", [False, True])
def test_npz_with_sparse_arrays_and_no_masks(dense, tmp_path):
    arrays, attr = sparse_arrays()
    if dense:
        arrays = {k: x for k, x in arrays.items() if not k.startswith("attr_")}
        arrays["attr_matrix"] = attr
    np.savez(tmp_path / "photo.npz", **arrays)
    dataset = load(str(tmp_path / "photo.npz"))
    assert_whole(dataset)
    assert [x.tolist() for x in dataset.graph.edges()] == [[0, 1, 2, 3, 5, 11], [1, 0, 3, 2, 11, 5]]
    assert np.array_equal(dataset.graph.ndata["feat"].numpy(), attr)
    assert [int(dataset.graph.ndata[mask].sum()) for mask in MASKS] == [8, 2, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edges": None}, "wrong.npz has no edges, only node_features, .* It needs node_features"),
        ({"node_labels": None}, "has no node_labels"),
        ({"node_labels": np.zeros(11, int)}, "features of 12 nodes, but labels of 11"),
        ({"edges": np.array([[0, 12]])}, "nodes 0 to 11, the rows of the features; found 0 to 12"),
        ({"edges": np.array([[-1, 2]])}, "found -1 to 2"),
        ({"node_features": np.array([{}] * 12)}, "node_features cannot be read as an array of numbers"),
        ({"node_labels": np.array(["cat"] * 12)}, "labels must be numbers; got <U3. Number the classes from 0"),
        ({"val_masks": None}, '"val_mask" is missing'),
        ({"edges": np.arange(12).reshape(3, 4)}, r"edges must be \[E, 2\], source and destination; got shape \(3, 4\)"),
        ({"edges": np.array([[0.5, 1.0]])}, "edges must be whole numbers, of nodes from 0; got float64"),
        ({"val_masks": np.ones((3, 5), bool)}, r"val_masks must be \[S, N\], a row of 12 nodes .* got shape \(3, 5\)"),
        ({"node_labels": np.full(12, 10**10)}, "has the class 10000000000. Number the classes from 0"),
        ({"node_features": np.full((12, 2), np.nan)}, r"must be finite numbers of shape \[N, F\]; got nan at node 0"),
    ],
)
def test_a_wrong_npz_is_told_what_to_do(change, message, tmp_path):
    arrays = {k: x for k, x in {**heterophilous_arrays(), **change}.items() if x is not None}
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        load(str(tmp_path / "wrong.npz"))


def test_files_that_are_not_what_their_name_says(tmp_path):
    for name in ("x.npz", "x.bin", "x.txt"):
        with pytest.raises(FileNotFoundError, match=f"there is no .*{name}"):
            load(str(tmp_path / name))
    (tmp_path / "x.npz").write_bytes(b"PK\x03\x04 not a zip")
    (tmp_path / "y.npz").write_bytes(pickle.dumps([1]))
    for name in ("x.npz", "y.npz"):
        with pytest.raises(ValueError, match=r"is not a \.npz file"):
            load(str(tmp_path / name))
    np.savez(tmp_path / "z.npz", **heterophilous_arrays())
    whole = (tmp_path / "z.npz").read_bytes()
    (tmp_path / "z.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"z.npz"):
        load(str(tmp_path / "z.npz"))
    (tmp_path / "x.bin").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"x.bin is not a file that dgl.save_graphs wrote"):
        load(str(tmp_path / "x.bin"))
    (tmp_path / "x.txt").write_text("0 1")
    with pytest.raises(ValueError, match=r"must be a \.npz file, a \.bin file"):
        load(str(tmp_path / "x.txt"))


def write_csv(folder, **files):
    folder.mkdir(exist_ok=True)
    contents = {
        "edges": "src,dst\n0,1\n2,3\n1,0\n5,4\n",
        "features": "".join(f"{i},{i / 2}\n" for i in range(6)),
        "labels": "label\n0\n1\n2\n0\n1\n-1\n",
        **files,
    }
    for name, text in contents.items():
        (folder / f"{name}.csv").write_text(text)
    return str(folder)


def test_a_folder_of_csv_files(tmp_path):
    dataset = load(write_csv(tmp_path / "mine"))
    assert_whole(dataset)
    g = dataset.graph
    assert (dataset.name, dataset.num_classes, dataset.num_feats) == ("mine", 3, 2)
    assert [x.tolist() for x in g.edges()] == [[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]]
    assert g.ndata["label"].tolist() == [0, 1, 2, 0, 1, -1]
    assert g.ndata["feat"][3].tolist() == [3, 1.5]


def test_a_folder_with_a_split_an_array_and_several_labels(tmp_path):
    labels = "0,1\n1,1\n0,0\n1,0\n0,1\n1,1\n"
    folder = write_csv(tmp_path / "mine", split="split\ntrain\nval\ntest\ntrain\nnone\ntest\n", labels=labels)
    (tmp_path / "mine" / "features.csv").unlink()
    np.save(tmp_path / "mine" / "features.npy", np.eye(6))
    dataset = load(folder)
    assert_whole(dataset)
    assert dataset.metric == "micro-F1"
    marked = [dataset.graph.ndata[mask].nonzero().flatten().tolist() for mask in MASKS]
    assert marked == [[0, 3], [1], [2, 5]]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"edges": "0,1,5\n"}, "two columns, source and destination; got 3"),
        ({"edges": "0,six\n1,2\n3,x\n"}, "edges.csv must hold numbers"),
        ({"edges": "1,6\n"}, "nodes 0 to 5"),
        ({"labels": "0\n1\n"}, "features of 6 nodes, but labels of 2"),
        ({"split": "train\nval\n"}, "a row for each of the 6 nodes: train, val, test or none; got 2 rows"),
        ({"split": "train\nval\ntest\nvalid\nnone\nnone\n"}, "'valid'"),
    ],
)
def test_a_wrong_csv_is_told_what_to_do(files, message, tmp_path):
    folder = write_csv(tmp_path / "mine", **files)
    with pytest.raises(ValueError, match=message):
        load(folder)


def test_a_graph_of_a_csv_may_have_no_edges(tmp_path):
    folder = write_csv(tmp_path / "mine", edges="source,destination\n")
    assert load(folder).graph.num_edges() == 0


def test_a_mark_before_the_first_cell_is_no_part_of_it(tmp_path):
    folder = write_csv(tmp_path / "mine")
    without = load(folder).graph
    path = tmp_path / "mine" / "edges.csv"
    lines = [line for line in path.read_text().splitlines() if line[0].isdigit()]
    path.write_text("\n".join(lines), encoding="utf-8-sig")  # as spreadsheets write it, without a line of names
    assert all(torch.equal(a, b) for a, b in zip(load(folder).graph.edges(), without.edges()))


def test_features_that_are_pickled_objects_are_refused(tmp_path):
    folder = write_csv(tmp_path / "mine")
    np.save(tmp_path / "mine" / "features.npy", np.array([{}] * 6))
    with pytest.raises(ValueError, match=r"features\.npy cannot be read as an array of numbers"):
        load(folder)


def test_a_folder_without_a_file_is_told_which(tmp_path):
    folder = write_csv(tmp_path / "mine")
    (tmp_path / "mine" / "labels.csv").unlink()
    with pytest.raises(FileNotFoundError, match=r"no .*labels.csv. The folder needs edges.csv"):
        load(folder)


# Noise


@settings(deadline=None, max_examples=100)
@given(
    num_nodes=st.integers(3, 60),
    share=st.floats(0, 1),
    noise=st.floats(0, 1),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32),
    small_ids=st.booleans(),
)
def test_noise_joins_as_many_unlinked_pairs_as_asked_for(num_nodes, share, noise, kind, seed, small_ids):
    g = small_graph(num_nodes, int(share * num_nodes * (num_nodes - 1) / 2), seed % 1000)
    g = g.int() if small_ids else g
    g.edata["weight"] = torch.rand(g.num_edges())
    label = g.ndata["label"]
    every = {u * num_nodes + v for u in range(num_nodes) for v in range(u + 1, num_nodes)}
    free = every - pair_set(g)
    if kind == "heterophilous":
        free = {k for k in free if label[k // num_nodes] != label[k % num_nodes]}
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
    new = {*(torch.minimum(u, v) * num_nodes + torch.maximum(u, v))[old:].tolist()}
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
    for kind in KINDS:
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
    ends = {kind: noise_ends(g, kind) for kind in KINDS}
    same = {kind: (label[u] == label[v]).float().mean().item() for kind, (u, v) in ends.items()}
    cosine = {kind: (feat[u] * feat[v]).sum(1) for kind, (u, v) in ends.items()}
    mean = {kind: degree[u].mean().item() for kind, (u, _) in ends.items()}
    assert same["uniform"] == pytest.approx(0.2, abs=0.02)
    assert same["heterophilous"] == 0
    assert cosine["similar"].min() > cosine["uniform"].mean() + cosine["uniform"].std()
    assert mean["uniform"] == pytest.approx(degree.mean().item(), rel=0.02)
    assert mean["hubs"] == pytest.approx(((degree + 1) * degree).sum().item() / (degree + 1).sum().item(), rel=0.02)


@pytest.mark.parametrize(("num_nodes", "taken"), [(4, [1, 2]), (9, [1])])  # from a list, and by chance
@pytest.mark.parametrize("law", ["uniform", "different", "same", "first", "both"])
def test_pairs_are_as_likely_as_their_weights_say(num_nodes, taken, law):
    weights = np.arange(1.0, num_nodes + 1)
    labels = np.arange(num_nodes) if law in ("uniform", "both") else np.arange(num_nodes) % 2
    same = law == "same"
    first, second = (weights if law in ("first", "both") else None), (weights if law == "both" else None)
    u, v = np.triu_indices(num_nodes, 1)
    allowed = ((labels[u] == labels[v]) == same) & ~np.isin(u * num_nodes + v, taken)
    u, v = u[allowed], v[allowed]
    expected = np.ones(len(u))
    if law == "first":
        partners = (labels[:, None] != labels).sum(1)
        expected = weights[u] / partners[u] + weights[v] / partners[v]
    elif law == "both":
        expected = weights[u] * weights[v]
    rng = np.random.default_rng(0)
    args = {"same": same, "taken": np.array(taken, np.int64), "first": first, "second": second}
    drawn = [draw_pairs(rng, 1, labels, **args) for _ in range(3000)]
    found = np.bincount([int(a[0]) * num_nodes + int(b[0]) for a, b in drawn], minlength=num_nodes**2)
    assert found.sum() == found[u * num_nodes + v].sum()
    expected *= 3000 / expected.sum()
    assert len(u) == 1 or scipy.stats.chisquare(found[u * num_nodes + v], expected).pvalue > 1e-3


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
    for kind in KINDS:
        noisy = add_noise_edges(g, 20000, kind=kind)
        assert noisy.num_edges() == 10556 + 40000
        assert len(pair_set(noisy)) == 5278 + 20000


# Generated graphs


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
    with pytest.raises(ValueError, match="pairs of nodes of the same label are asked for, but there are only"):
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


# Link prediction


def keys_of(pairs, num_nodes):
    return {*(pairs.min(1).values * num_nodes + pairs.max(1).values).tolist()}


@settings(deadline=None, max_examples=40)
@given(num_nodes=st.integers(8, 60), share=st.floats(0, 0.8), seed=st.integers(0, 2**32), loops=st.booleans())
def test_held_out_edges_do_not_leak(num_nodes, share, seed, loops):
    g = small_graph(num_nodes, int(share * num_nodes * (num_nodes - 1) / 2), seed % 1000)
    g = dgl.add_self_loop(g) if loops else g
    linked = pair_set(g)
    split = split_edges(g, seed)
    train, val, val_not, test, test_not = (
        pair_set(x) if i == 0 else keys_of(x, num_nodes) if len(x) else set() for i, x in enumerate(split)
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

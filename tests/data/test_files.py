"""A user's own files."""

import contextlib
import pickle

import dgl
import numpy as np
import pytest
import scipy.sparse
import scipy.stats
import torch
from graphs import MASKS, assert_whole, small_graph

from dgl_ptdnet.data import Dataset, files, load


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adj_data": np.ones(99)}, "as many data and indices as indptr says"),
        ({"adj_indices": np.array([10**9, 0, 0, 0])}, "from 0 to 11"),
        ({"adj_indices": np.array([-1, 0, 0, 0])}, "from 0 to"),
        ({"adj_indptr": np.array([0, 3, 1, 4, 4])}, "must begin with 0 and not decrease"),
        ({"adj_indptr": np.array([[0, 4]])}, "must be a row of whole numbers"),
        ({"attr_indices": np.full(24, 10**9)}, "from 0 to 4"),
        ({"attr_indptr": np.arange(1, 14)}, "must begin with 0"),
        ({"attr_shape": np.array([12, 1])}, "must have indices from 0 to 0"),
        ({"attr_shape": np.array([99, 5])}, "an indptr of length 100"),
        ({"attr_data": np.full(24, "a")}, "must be a row of numbers"),
    ],
)
def test_parts_of_sparse_matrices_are_checked(change, message, tmp_path):
    arrays, _ = sparse_arrays()
    np.savez(tmp_path / "odd.npz", **{**arrays, **change})
    with pytest.raises(ValueError, match=rf"odd\.npz.*({message})"):
        load(str(tmp_path / "odd.npz"))


def test_an_array_that_does_not_fit_in_memory_is_named_before_it_is_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "large.npz", **heterophilous_arrays())
    monkeypatch.setattr(files, "_available_memory", lambda: 20.0)
    monkeypatch.setattr(np.lib.format, "read_array", None)
    with pytest.raises(ValueError, match=r"large.npz: edges of shape .* needs 0.0 GB of memory, but 0.0 GB"):
        load(str(tmp_path / "large.npz"))


def test_sparse_features_that_do_not_fit_in_memory_are_named(tmp_path, monkeypatch):
    arrays, _ = sparse_arrays()
    np.savez(tmp_path / "wide.npz", **{**arrays, "attr_shape": np.array([len(arrays["labels"]), 10**12])})
    with pytest.raises(ValueError, match=r"wide.npz: the matrix of features of shape .* needs [\d.]+ GB of memory"):
        load(str(tmp_path / "wide.npz"))


def test_a_broken_file_of_graphs_does_not_take_the_process_along(tmp_path):
    g = small_graph()
    dgl.save_graphs(str(tmp_path / "good.bin"), [g])
    content, random = (tmp_path / "good.bin").read_bytes(), np.random.default_rng(0)
    assert load(str(tmp_path / "good.bin")).graph.num_edges() == g.num_edges()
    refused = []
    for number in range(60):
        broken = bytearray(content)
        for place in random.integers(0, 400, 3):  # the head of the file has its sizes
            broken[place] = random.integers(256)
        path = tmp_path / f"broken-{number}.bin"
        path.write_bytes(broken[: random.integers(len(broken))] if number % 4 == 0 else broken)
        with contextlib.suppress(ValueError):  # what is not refused has other numbers in it
            load(str(path))
            continue
        refused.append(path)
    assert len(refused) > 20
    for path in refused[:9]:
        with pytest.raises(ValueError, match=path.name):
            load(str(path))


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
        ({"edges": np.array([[0.5, 1.0]])}, "edges must be integers, the numbers of nodes from 0; got float64"),
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
        with pytest.raises(ValueError, match=r"is not a complete \.npz file"):
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
        ({"edges": "a,b\n1,2\n3,x\n"}, "edges.csv must hold numbers .*Number nodes and classes from 0"),
        ({"edges": "0,six\n1,2\n"}, "edges.csv: 'six' in the first line is no number"),
        ({"edges": "O,1\n1,2\n"}, "edges.csv: 'O' in the first line is no number"),
        ({"edges": "0,1\0\n1,2\n"}, "edges.csv: .* in the first line is no number"),
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

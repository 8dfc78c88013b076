"""Data sets by name."""

import functools
import http.server
import shutil
import threading
import time

import pytest
import torch
from graphs import FOLDERS, MASKS, SHARED, assert_whole, copy, real, real_data

from dgl_ptdnet.data import available, load


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

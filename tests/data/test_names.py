"""Names of data sets."""

import pytest

from dgl_ptdnet.data import available, load
from dgl_ptdnet.data.names import GENERATED, DataName


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


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("cora", ("cora", 0, "node")),
        ("cora+20000", ("cora", 20000, "node")),
        ("cora-link", ("cora", 0, "link")),
        ("cora+5-link", ("cora", 5, "link")),
        ("my+graph", ("my+graph", 0, "node")),
        ("my-graph+7", ("my-graph", 7, "node")),
    ],
)
def test_names_of_data_are_written_and_read_in_one_way(name, parts):
    assert str(DataName(*parts)) == name
    assert DataName.parse(name) == parts


def test_the_listed_sizes_of_generated_graphs_are_those_of_seed_0():
    for name, counts in GENERATED.items():
        data = load(name)
        g = data.graph
        assert counts == (g.num_nodes(), g.num_edges(), data.num_feats, data.num_classes)

"""Names of data sets."""

from dgl_ptdnet.data import available


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

"""Settings: files, defaults, wrong values."""

import math

import pytest

from dgl_ptdnet.train import Settings, resolve
from dgl_ptdnet.train.settings import BACKBONES, METHODS, defaults, read_settings, read_toml, update_defaults


def test_settings_go_to_a_file_and_back(tmp_path):
    s = Settings(dataset='a "b" \\ c', layers=3, fanouts=(5, -1, 2), lr=1e-4, amp=True, gate_bias=-1)
    (tmp_path / "s.toml").write_text(s.to_toml())
    assert Settings(**read_settings(tmp_path / "s.toml")) == s


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learning_rat": 1}, "no setting 'learning_rat'"),
        ({"epoch": 3}, "did you mean 'epochs'"),
        ({"backbone": "gcnn"}, "Did you mean gcn"),
        ({"epochs": 2.5}, "epochs must be int"),
        ({"epochs": True}, "epochs must be int"),
        ({"lr": -1}, "lr must be a number of at least 0"),
        ({"lr": math.nan}, "lr must be a number"),
        ({"fanouts": [3]}, "a number for each of the 2 layers"),
        ({"fanouts": 3}, "fanouts must be a list of int"),
        ({"dropout": 1.0}, "at most 0.999"),
        ({"dropedge_rate": 0.9999999}, "at most 0.999"),
        ({"consistency_temperature": 0.01}, "consistency_temperature must be 0 or at least 0.05"),
        ({"fanouts": [5, 0]}, "fanouts must be -1 .* or at least 1"),
        ({"threads": 100_000}, "threads must be at most 1024"),
        ({"first_seed": 2**40}, "seeds must end below 2.31"),
    ],
)
def test_wrong_settings_are_refused_by_name(given, message):
    with pytest.raises(ValueError, match=message):
        resolve(given)


def test_defaults_of_a_data_set_count_more_than_common_ones(tmp_path):
    (tmp_path / "common.toml").write_text("lr = 0.1\nhidden = 1\n[gat]\nhidden = 2\n[basic]\nlr = 0.2\n")
    (tmp_path / "cora.toml").write_text("epochs = 7\n[basic.gat]\nlr = 0.3\n")
    (tmp_path / "cora+50.toml").write_text("[basic]\nlr = 0.4\n")
    key = {"dataset": "Cora", "method": "basic", "backbone": "gat"}
    assert defaults(key, tmp_path) == {"lr": 0.3, "hidden": 2, "epochs": 7}
    assert defaults({**key, "noise_edges": 50}, tmp_path)["lr"] == 0.4
    assert defaults({**key, "backbone": "gcn"}, tmp_path) == {"lr": 0.2, "hidden": 1, "epochs": 7}
    assert defaults({**key, "dataset": "../x", "method": "mlp"}, tmp_path) == {"lr": 0.1, "hidden": 2}
    update_defaults(tmp_path / "cora.toml", "basic", "gat", {"lr": 0.5, "fanouts": [1, 2]})
    update_defaults(tmp_path / "cora.toml", "ptdnet-plus", "gcn", {"prior": False})
    assert read_toml(tmp_path / "cora.toml") == {
        "epochs": 7,
        "basic": {"gat": {"lr": 0.5, "fanouts": [1, 2]}},
        "ptdnet-plus": {"gcn": {"prior": False}},
    }
    (tmp_path / "common.toml").write_text("lr = 0.1\n[basic]\nlr = 0.2\n[link]\nlr = 0.5\n")
    assert defaults({**key, "task": "link"}, tmp_path)["lr"] == 0.5


@pytest.mark.parametrize("dataset", ["cora", "citeseer", "pubmed", "ppi", "synthetic", "other"])
def test_there_are_defaults_for_all(dataset):
    for method in METHODS:
        for backbone in BACKBONES:
            assert resolve(dataset=dataset, method=method, backbone=backbone).method == method
            resolve(dataset=dataset, method=method, backbone=backbone, task="link")


def test_noise_takes_the_nearest_defaults_and_links_have_their_own(tmp_path):
    for name, lr in (("common", 0.1), ("cora", 0.2), ("cora+20000", 0.3), ("cora+nearly", 0.4), ("cora-link", 0.5)):
        (tmp_path / f"{name}.toml").write_text(f"# {name}\n# second\nlr = {lr}\n")
    for level, lr in ((0, 0.2), (1000, 0.2), (9999, 0.2), (10000, 0.3), (15000, 0.3), (90000, 0.3)):
        assert defaults({"dataset": "cora", "noise_edges": level}, tmp_path) == {"lr": lr}
    assert defaults({"dataset": "cora", "task": "link"}, tmp_path) == {"lr": 0.5}
    assert defaults({"dataset": "pubmed", "task": "link"}, tmp_path) == {"lr": 0.1}
    update_defaults(tmp_path / "cora.toml", "basic", "gcn", {"lr": 0.6})
    assert (tmp_path / "cora.toml").read_text() == "# cora\n# second\nlr = 0.2\n\n[basic.gcn]\nlr = 0.6\n"

"""Run folders: resuming, refusing, broken files."""

import json
import os

import pytest
import torch
from runs import same_bits, settings, small

from dgl_ptdnet.train import load_run, train
from dgl_ptdnet.train.loop import Trainer
from dgl_ptdnet.train.settings import read_settings


def test_a_run_that_was_ended_goes_on(tmp_path, monkeypatch):
    s, data = settings(method="ptdnet-plus", seeds=3, epochs=4), small()
    expected = train(s, data).metrics
    calls = 0

    def fails(self):
        nonlocal calls
        calls += 1
        if calls == 7:
            raise KeyboardInterrupt
        return whole_epoch(self)

    whole_epoch = Trainer.run_epoch
    monkeypatch.setattr("dgl_ptdnet.train.folder._CHECKPOINT_SECONDS", 0)
    monkeypatch.setattr(Trainer, "run_epoch", fails)
    with pytest.raises(KeyboardInterrupt):
        train(s, data, out=tmp_path)
    assert not (tmp_path / "metrics.json").exists()
    assert same_bits(train(s, data, out=tmp_path).metrics, expected)
    total = calls
    assert total < 12 + 1 + 4  # 3 seeds of 4 epochs, the one that failed, and not all of its seed again
    assert same_bits(train(s, data, out=tmp_path).metrics, expected)
    assert calls == total
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [(row["seed"], row["epoch"]) for row in rows] == [(s, e) for s in range(3) for e in range(4)]


def test_tensorboard_gets_every_figure_where_it_is_installed(tmp_path, monkeypatch):
    written = []

    class Board:
        def __init__(self, path, epoch):
            written.append((path, epoch))

        def add_scalar(self, name, value, epoch):
            written.append((name, epoch, value))

        def close(self):
            written.append("closed")

    monkeypatch.setattr("dgl_ptdnet.train.folder._tensorboard", Board)
    result = train(settings(method="ptdnet", epochs=2), small(), out=tmp_path)
    assert written[0] == (tmp_path / "tensorboard" / "seed-0", 0)
    assert written[-1] == "closed"
    history = result.seeds[0].history
    for name, value in (("val", history[1].val), ("edges_kept/1", history[1].edges_kept[1])):
        assert (name, 1, value) in written


def test_a_run_whose_data_has_changed_is_refused(tmp_path):
    train(settings(method="ptdnet"), small(), out=tmp_path)
    again = train(settings(method="ptdnet"), small(), out=tmp_path)
    assert again.metrics.to_json() == json.loads((tmp_path / "metrics.json").read_text())
    other = small(num_pairs=299)
    for use in (lambda: train(settings(method="ptdnet"), other, out=tmp_path), lambda: load_run(tmp_path, data=other)):
        with pytest.raises(ValueError, match=r"was trained on other data: .* has changed since"):
            use()
    assert load_run(tmp_path, data=small()).epoch == 0


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_broken_metrics_are_made_anew(content, tmp_path):
    whole = train(settings(method="basic"), small(), out=tmp_path).metrics
    (tmp_path / "metrics.json").write_text(content)
    assert load_run(tmp_path, data=small()).task.metric == "accuracy"
    assert train(settings(method="basic"), small(), out=tmp_path).metrics == whole
    assert json.loads((tmp_path / "metrics.json").read_text()) == whole.to_json()


def rewritten(path, change):
    """Changes the contents of a file of torch.save."""
    state = torch.load(path, weights_only=True)
    change(state)
    torch.save(state, path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda state: state.pop("best"), "KeyError: 'best'"),
        (lambda state: state.update(version=99), "it is of version 99"),
        (lambda state: state["result"].pop("val"), "a SeedResult is not complete"),
        (lambda state: state["result"].update(extra=1), "a SeedResult has no extra"),
        (lambda state: state.update(result=[1]), "a SeedResult must have names and values; got list"),
        (lambda state: state["best"]["model"].popitem(), "the saved model has no"),
        (lambda state: state["best"].update(model=7), "has no attribute .keys"),
    ],
)
def test_wrong_contents_of_a_model_are_named(change, reason, tmp_path):
    train(settings(method="basic"), small(), out=tmp_path)
    rewritten(tmp_path / "model-0.pt", change)
    with pytest.raises(ValueError, match=rf"model-0.pt is broken or from another version .*({reason}).*Train it again"):
        load_run(tmp_path, data=small())


def test_wrong_contents_of_a_state_are_named(tmp_path):
    train(settings(method="basic"), small(), out=tmp_path)
    (tmp_path / "model-0.pt").unlink()
    rewritten(tmp_path / "state-0.pt", lambda state: state.pop("optimizer"))
    with pytest.raises(ValueError, match=r"state-0.pt is broken .*KeyError: 'optimizer'.*Delete it to train this seed"):
        train(settings(method="basic"), small(), out=tmp_path)


def test_a_seed_in_the_place_of_another_is_named(tmp_path):
    train(settings(method="basic", seeds=2), small(), out=tmp_path)
    (tmp_path / "model-1.pt").write_bytes((tmp_path / "model-0.pt").read_bytes())
    with pytest.raises(ValueError, match=r"model-1.pt is of seed 0. Delete it"):
        train(settings(method="basic", seeds=2), small(), out=tmp_path)


def test_a_hostile_checkpoint_is_refused_without_advice_to_load_it(tmp_path):
    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "hacked"),)

    train(settings(method="basic"), small(), out=tmp_path / "run")
    torch.save({"version": 2, "best": Hostile()}, tmp_path / "run" / "model-0.pt")
    with pytest.raises(ValueError, match="not a file of tensors and numbers only") as error:
        load_run(tmp_path / "run", data=small())
    assert "weights_only" not in str(error.value)
    assert not (tmp_path / "hacked").exists()


def test_settings_that_are_missing_are_named(tmp_path):
    train(settings(method="basic"), small(), out=tmp_path)
    (tmp_path / "settings.toml").write_text("")
    with pytest.raises(ValueError, match=r"settings.toml has no dataset, backbone, .*: it is incomplete"):
        load_run(tmp_path, data=small())


@pytest.mark.parametrize("method", ["basic", "ptdnet-plus"])
def test_a_run_can_be_given_more_epochs(method, tmp_path):
    def given(epochs):
        return settings(method=method, seeds=2, epochs=epochs, agreement_warm_up=1)

    train(given(3), small(), out=tmp_path / "run")
    whole, more = train(given(5), small()), train(given(5), small(), out=tmp_path / "run")
    assert same_bits(whole.metrics, more.metrics)
    assert [same_bits(a, b) for a, b in zip(whole.seeds[1].history, more.seeds[1].history)] == [True] * 5
    assert read_settings(tmp_path / "run" / "settings.toml")["epochs"] == 5
    rows = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert [(row["seed"], row["epoch"]) for row in rows] == [(s, e) for s in range(2) for e in range(5)]
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == more.metrics.to_json()


def test_other_settings_are_refused(tmp_path):
    train(settings(method="basic"), small(), out=tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=r"epochs = 3 there, 2 here.*another --out"):
        train(settings(method="basic", epochs=2), small(), out=tmp_path)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="not empty, and not the folder of a run"):
        train(settings(method="basic"), small(), out=tmp_path / "sub")

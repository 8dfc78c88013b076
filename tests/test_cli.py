"""The command line: what it writes, what it says, and that nothing is lost."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time

import dgl
import pytest
import torch
from runs import same_bits

from dgl_ptdnet.cli import main
from dgl_ptdnet.data import synthetic

QUICK = ["--hidden", "8", "--epochs", "3", "--seeds", "2"]


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "small.bin"
    dgl.save_graphs(str(path), [synthetic(class_size=20, num_pairs=300, num_feats=12).graph])
    return str(path)


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refused(capsys, *arguments):
    """The one line that a command says when it ends with code 2."""
    assert main([str(x) for x in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith("dgl-ptdnet: ")
    return error


def test_train_evaluate_prune(graph, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "--dataset", graph, "--method", "ptdnet", "--out", str(out), *QUICK]) == 0
    said = capsys.readouterr().out
    metrics = json.loads((out / "metrics.json").read_text())
    assert f"test accuracy {metrics['mean']:.4f} ± {metrics['std']:.4f} (2 seeds)" in said
    names = {
        ".lock",
        "settings.toml",
        "data.json",
        "log.jsonl",
        "state-0.pt",
        "state-1.pt",
        "metrics.json",
        "model-0.pt",
        "model-1.pt",
    }
    assert names | {"training.png", "gates.png", "edges.png", "degrees.png"} == set(files(out))

    assert main(["evaluate", str(out)]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["test"] for row in rows] == metrics["test"]
    assert [row["val"] for row in rows] == metrics["val"]

    target = tmp_path / "new" / "denoised.bin"
    assert main(["prune", str(out), "--seed", "1", "--to", str(target), "--threshold", "0.5"]) == 0
    (g,), _ = dgl.load_graphs(str(target))
    assert f"{g.num_edges():,} of 600 edges kept" in capsys.readouterr().out
    assert (g.edata["gate"].amax(1) > 0.5).all()
    assert "exists. Choose another name" in refused(capsys, "prune", out, "--to", target)
    assert list(target.parent.iterdir()) == [target]


def test_the_same_command_goes_on_and_another_is_refused(graph, tmp_path, capsys):
    command = ["train", "--dataset", graph, "--method", "basic", "--out", str(tmp_path / "run"), *QUICK]
    assert main(command) == 0
    before = files(tmp_path / "run")
    assert main(command) == 0
    assert files(tmp_path / "run") == before
    assert "lr = 0.01 there, 0.5 here" in refused(capsys, *command, "--lr", "0.5")
    assert files(tmp_path / "run") == before


def test_settings_come_from_a_file_and_from_flags(graph, tmp_path, capsys):
    config = tmp_path / "settings.toml"
    config.write_text(f'dataset = "{graph}"\nmethod = "dropedge"\nepochs = 2\nhidden = 4\nseeds = 1\nlr = 0.02\n')
    out = tmp_path / "run"
    assert main(["train", "--config", str(config), "--hidden", "8", "--no-amp", "--out", str(out)]) == 0
    saved = (out / "settings.toml").read_text()
    assert 'method = "dropedge"' in saved
    assert "hidden = 8" in saved
    assert "lr = 0.02" in saved
    assert main(["train", "--config", str(out / "settings.toml"), "--out", str(tmp_path / "again")]) == 0
    assert (tmp_path / "again" / "settings.toml").read_text() == saved
    config.write_text("epohcs = 2\n")
    assert "no setting 'epohcs'; did you mean 'epochs'?" in refused(capsys, "train", "--config", config)
    config.write_text("epochs = = 2\n")
    assert "cannot be read as TOML" in refused(capsys, "train", "--config", config)
    assert "cannot be read as TOML" in refused(capsys, "train", "--config", tmp_path / "none.toml")
    config.write_text('epochs = "many"\n')
    assert "epochs must be int" in refused(capsys, "train", "--config", config)


def test_link_prediction(graph, tmp_path):
    assert main(["train", "--dataset", graph, "--task", "link", "--out", str(tmp_path / "run"), *QUICK]) == 0
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["metric"] == "AUC"
    assert len(metrics["test_ap"]) == 2


def test_sweep(graph, tmp_path, capsys):
    space = tmp_path / "space.toml"
    space.write_text("lr = [0.01, 0.1]\nhidden = { low = 4, high = 8 }\n")
    command = ["sweep", "--dataset", graph, "--method", "basic", "--out", str(tmp_path / "out"), "--epochs", "2"]
    command += ["--seeds", "1", "--space", str(space), "--into", str(tmp_path / "mine.toml"), "--trials"]
    assert main([*command, "2"]) == 0
    assert main([*command, "4"]) == 0
    assert len((tmp_path / "out" / "trials.jsonl").read_text().splitlines()) == 4
    assert "[basic.gcn]" in (tmp_path / "mine.toml").read_text()
    best = str(tmp_path / "out" / "best.toml")
    assert main(["train", "--config", best, "--seeds", "1", "--epochs", "2", "--out", str(tmp_path / "run")]) == 0
    space.write_text("lrr = [1]\n")
    assert "no setting 'lrr'" in refused(capsys, *command, "4")


def test_datasets(capsys, tmp_path):
    assert main(["datasets", "--data-dir", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "nodes", "edges", "feats", "classes", "where"]
    assert [line.split()[0] for line in lines[1:]] == ["cora", "citeseer", "pubmed", "ppi", "synthetic", "planted"]


@pytest.mark.parametrize("command", ["train", "evaluate", "prune", "sweep", "datasets"])
def test_every_command_has_help_with_examples(command, capsys):
    with pytest.raises(SystemExit) as end:
        main([command, "--help"])
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert f"examples:\n  dgl-ptdnet {command}" in said


def test_the_examples_of_the_help_parse():
    from dgl_ptdnet.cli import _parser

    for name, parser in _parser()._subparsers._group_actions[0].choices.items():
        for line in parser.epilog.partition("examples:\n")[2].splitlines():
            words = line.split()
            assert words[:2] == ["dgl-ptdnet", name]
            _parser().parse_args(words[1:])


def test_unknown_data_is_named_with_a_remedy(tmp_path, capsys):
    assert "there is no data set 'coar'" in refused(capsys, "train", "--dataset", "coar", "--out", tmp_path / "a")
    said = refused(capsys, "train", "--dataset", "cora", "--data-dir", tmp_path, "--out", tmp_path / "b")
    assert "leave out the data folder to download it" in said
    assert "no settings.toml" in refused(capsys, "evaluate", tmp_path)


def test_an_error_that_nobody_thought_of_is_a_line_and_can_be_traced(graph, tmp_path, capsys, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("not enough memory: you tried to allocate 400 GB\nmore lines")

    monkeypatch.setattr("dgl_ptdnet.train.train", broken)
    command = ["train", "--dataset", graph, "--out", str(tmp_path / "run")]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "RuntimeError: not enough memory" in said
    assert "Add --traceback" in said
    with pytest.raises(RuntimeError, match="not enough memory"):
        main([*command, "--traceback"])


def test_a_folder_without_data_sets_is_told(tmp_path, capsys):
    assert main(["datasets", "--data-dir", str(tmp_path / "nowhere")]) == 0
    said = capsys.readouterr().out
    assert f"not in {tmp_path / 'nowhere'}" in said
    assert "download" not in said


def test_searches_of_words_and_wrong_ones(graph, tmp_path, capsys):
    space = tmp_path / "space.toml"
    space.write_text('noise_kind = ["uniform", "hubs"]')
    command = ["sweep", "--dataset", graph, "--method", "basic", "--seeds", "1", "--epochs", "1", "--space", space]
    assert main([str(x) for x in [*command, "--out", tmp_path / "a", "--trials", 1]]) == 0
    assert "best: noise_kind = uniform" in capsys.readouterr().out
    assert "trials must be at least 1; got 0" in refused(capsys, *command, "--out", tmp_path / "b", "--trials", 0)
    space.write_text("lr = 0.1")
    message = "lr cannot be searched: it must be a list of values, or a range with low, high"
    assert message in refused(capsys, *command, "--out", tmp_path / "c")


def test_a_place_that_cannot_be_written_to(graph, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        said = refused(capsys, "train", "--dataset", graph, "--method", "basic", "--out", out, *QUICK)
        assert "Choose another path" in said
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_folder_without_permission(graph, tmp_path, capsys):
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    said = refused(capsys, "train", "--dataset", graph, "--method", "basic", "--out", folder / "run", *QUICK)
    assert "may read and write" in said


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_is_closed_is_named(number, graph, tmp_path, capsys, monkeypatch):
    def closed(prefix, dir):
        raise OSError(number, os.strerror(number), str(dir))

    monkeypatch.setattr("tempfile.mkstemp", closed)  # as any user, the administrator too
    said = refused(capsys, "train", "--dataset", graph, "--method", "basic", "--out", tmp_path / "run", *QUICK)
    assert f"{tmp_path / 'run'}: {os.strerror(number)}. Choose a path that you may" in said


@pytest.mark.parametrize("content", [b"not a database" * 99, b""])
def test_a_sweep_whose_study_is_broken_or_closed_is_named(content, graph, tmp_path, capsys):
    path = tmp_path / "out" / "study.db"
    path.parent.mkdir()
    if content:
        path.write_bytes(content)
    else:
        path.mkdir()
    said = refused(capsys, "sweep", "--dataset", graph, "--method", "basic", "--out", path.parent, "--trials", "1")
    assert "study.db cannot be read or written" in said
    assert "delete it to start again" in said


def test_a_device_that_is_not_there_is_named(graph, tmp_path, capsys):
    said = refused(capsys, "train", "--dataset", graph, "--device", "cuda:77", "--out", tmp_path / "run", *QUICK)
    assert "device 'cuda:77' cannot be used here" in said


def test_a_full_disk_loses_nothing(graph, tmp_path, capsys, monkeypatch):
    command = ["train", "--dataset", graph, "--method", "ptdnet", *QUICK, "--out"]
    assert main([*command, str(tmp_path / "whole")]) == 0
    whole = json.loads((tmp_path / "whole" / "metrics.json").read_text())
    fsync, calls = os.fsync, 0

    def full(descriptor):
        nonlocal calls
        calls += 1
        if calls == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        return fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    for fails_at in (1, 3, 5, 7, 11, 15):  # settings, data, state, model, of the second seed, a picture: two calls each
        out, calls = tmp_path / f"run-{fails_at}", 0
        capsys.readouterr()
        assert "No space left on device. Free some space" in refused(capsys, *command, out)
        assert [path.name for path in out.iterdir() if path.name.startswith(".")] == [".lock"]
        assert main([*command, str(out)]) == 0
        assert json.loads((out / "metrics.json").read_text()) | {"epoch_seconds": 0} == whole | {"epoch_seconds": 0}


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "other"])
def test_a_broken_checkpoint_is_named_and_left_alone(damage, graph, tmp_path, capsys):
    out = tmp_path / "run"
    command = ["train", "--dataset", graph, "--method", "basic", *QUICK, "--out", out]
    assert main(list(map(str, command))) == 0
    (out / "metrics.json").unlink()
    path = out / "model-0.pt"
    content = path.read_bytes()
    broken = {"cut": content[: len(content) // 2], "empty": b"", "flipped": content[:99] + b"???" + content[102:]}
    path.write_bytes(broken.get(damage, b""))
    if damage == "other":
        torch.save({"something": torch.ones(3)}, path)
    before = files(out)
    said = refused(capsys, *command)
    assert "model-0.pt is broken" in said
    assert "Delete it to train this seed again" in said
    assert files(out) == before
    path.unlink()
    assert main(list(map(str, command))) == 0


def command_line(*arguments):
    return [sys.executable, "-m", "dgl_ptdnet", *map(str, arguments)]


def test_a_run_that_was_killed_ends_as_if_it_had_not_been(graph, tmp_path):
    command = ["train", "--dataset", graph, "--method", "ptdnet-plus", "--hidden", "8", "--seeds", "2"]
    command += ["--epochs", "100", "--noise-edges", "100", "--out"]
    subprocess.run(command_line(*command, tmp_path / "whole"), check=True, capture_output=True)
    log, out = tmp_path / "run" / "log.jsonl", subprocess.DEVNULL
    length = sum(json.loads(line)["seconds"] for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines())
    with subprocess.Popen(command_line(*command, tmp_path / "run"), stdout=out) as running:
        while running.poll() is None and not log.exists():
            time.sleep(0.02)
        time.sleep(random.uniform(0, length))
        running.send_signal(signal.SIGKILL)
    subprocess.run(command_line(*command, tmp_path / "run"), check=True, capture_output=True)
    whole, run = (json.loads((tmp_path / name / "metrics.json").read_text()) for name in ("whole", "run"))
    assert whole | {"epoch_seconds": 0} == run | {"epoch_seconds": 0}
    logs = [(tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("whole", "run")]
    rows = [[{**json.loads(line), "seconds": 0} for line in lines] for lines in logs]
    assert rows[0] == rows[1]
    for seed in range(2):
        states = [torch.load(tmp_path / name / f"model-{seed}.pt", weights_only=True) for name in ("whole", "run")]
        assert same_bits(*(state["best"] for state in states))

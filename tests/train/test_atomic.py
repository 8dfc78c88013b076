"""Files that are written as a whole, folders for one process."""

import pytest
from runs import settings, small

from dgl_ptdnet.train import train
from dgl_ptdnet.train.atomic import locked, write_atomic


def test_a_folder_is_for_one_process_and_leftovers_are_taken_away(tmp_path):
    partial = tmp_path / ".dgl-ptdnet-checkpoint.pt.abcdefgh"  # of a process that was killed as it wrote
    partial.write_bytes(b"half")
    train(settings(method="basic"), small(), out=tmp_path)
    assert not partial.exists()
    with locked(tmp_path), pytest.raises(ValueError, match=r"another process is using .*\. Wait until it has ended"):
        train(settings(method="basic"), small(), out=tmp_path)


def test_a_file_is_the_old_one_or_the_new_one(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomic(path, "old")
    monkeypatch.setattr("os.replace", lambda *args: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_lock_that_is_a_symbolic_link_is_refused_and_its_target_left_alone(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ValueError, match=r"\.lock is a symbolic link\. Delete it"), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "victim").read_text() == "mine"

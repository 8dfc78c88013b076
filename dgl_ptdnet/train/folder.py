"""The folder of a run: every file in it is whole at any moment, and a run goes on from it."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..data import Dataset
from ..data.dataset import SPLITS
from .settings import Settings, read_settings
from .write import locked, write_whole

_CHECKPOINT_SECONDS = 0.5
_VERSION = 1


def write_state(path: Path, state: Any) -> None:
    buffer = io.BytesIO()
    torch.save({"version": _VERSION, **state}, buffer)
    write_whole(path, buffer.getvalue())


def read_state(path: Path, remedy: str, *names: str) -> Any:
    """What :func:`write_state` wrote, with the entries that it must have. Nothing in the file is executed."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["version"] != _VERSION:
            raise ValueError(f"it is of version {state['version']}")
        if missing := [name for name in names if name not in state]:
            raise ValueError(f"it has no {' and no '.join(missing)}")
        return state
    except FileNotFoundError:
        raise
    except Exception as error:  # a broken file raises nearly anything
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise ValueError(f"{path} is broken or not of this version ({reason}). {remedy}") from error


class RunFolder:
    """Files of a run of several seeds.

    ``settings.toml``: the settings. ``data.json``: by what its data is known again. ``checkpoint.pt``: results of the
    seeds that ended, and the state of the one that has not. ``model-SEED.pt``: the best state. ``log.jsonl``: a line
    for each epoch. ``metrics.json`` and pictures: written when all seeds have ended.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path, self.settings = path, settings
        self.finished: list[dict[str, Any]] = []
        self.metrics: dict[str, Any] = {}
        self._state: dict[str, Any] = {}
        self._written, self._pause = time.monotonic(), _CHECKPOINT_SECONDS
        self._board: Any = None
        if (path / "settings.toml").exists():
            self._open()
        else:
            write_whole(path / "settings.toml", settings.to_toml())

    @classmethod
    @contextmanager
    def open(cls, path: Path, settings: Settings) -> Iterator[RunFolder]:
        """The folder of a new run or of one that goes on, for this process alone."""
        path.mkdir(parents=True, exist_ok=True)
        others = any(not file.name.startswith(".") for file in path.iterdir())
        if others and not (path / "settings.toml").exists():
            raise ValueError(f"{path} is not empty, and not a run. Choose another --out, or empty it")
        with locked(path):
            yield cls(path, settings)

    def _open(self) -> None:
        theirs, ours = read_settings(self.path / "settings.toml"), asdict(self.settings)
        differ = [name for name in ours if theirs.get(name) != (list(x) if isinstance(x := ours[name], tuple) else x)]
        if differ:
            changes = ", ".join(f"{name} = {theirs.get(name)!r} there, {ours[name]!r} here" for name in differ)
            raise ValueError(f"{self.path} holds a run with other settings ({changes}). Choose another --out")
        if (self.path / "checkpoint.pt").exists():
            remedy = "Delete it to begin the run anew, or bring it back from a copy"
            state = read_state(self.path / "checkpoint.pt", remedy, "finished", "running")
            self.finished, self._state = state["finished"], state["running"]
            for seed in self.finished:
                path = self.path / f"model-{seed['result']['seeds']}.pt"
                try:
                    seed["best"] = read_state(path, "Delete checkpoint.pt to begin the run anew", "model")
                except FileNotFoundError as error:
                    raise ValueError(f"{path} is missing. Delete checkpoint.pt to begin the run anew") from error
        if len(self.finished) == self.settings.seeds:
            self.metrics = read_metrics(self.path)
        if not self.metrics:
            rows = [(seed["result"]["seeds"], row) for seed in self.finished for row in seed["history"]]
            rows += [(self._state["seed"], row) for row in self._state.get("history", [])]
            write_whole(self.path / "log.jsonl", "".join(_line(seed, row) for seed, row in rows))

    def resume(self, trainer: Any) -> None:
        """Brings a new trainer to the state of the checkpoint, if that is of its seed."""
        if self._state.get("seed") == trainer.seed:
            trainer.load_state_dict(self._state)
        self._state = {}
        self._board = _tensorboard(self.path / "tensorboard" / f"seed-{trainer.seed}", trainer.epoch)

    def epoch(self, trainer: Any, row: dict[str, Any]) -> None:
        """Logs an epoch; now and then writes a checkpoint."""
        with open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(_line(trainer.seed, row))
        if self._board:
            for name, value in row.items():
                values = {f"{name}/{k}": x for k, x in enumerate(value)} if isinstance(value, list) else {name: value}
                for tag, number in values.items():
                    self._board.add_scalar(tag, number, row["epoch"])
        if time.monotonic() - self._written >= self._pause:
            begin = time.monotonic()
            self._checkpoint({"seed": trainer.seed, **trainer.state_dict()})
            self._written = time.monotonic()
            self._pause = max(_CHECKPOINT_SECONDS, 20 * (self._written - begin))  # at most a twentieth of the time

    def end_seed(self) -> None:
        """Writes down the last of ``finished``."""
        write_state(self.path / f"model-{self.finished[-1]['result']['seeds']}.pt", self.finished[-1]["best"])
        self._checkpoint({})
        if self._board:
            self._board.close()

    def _checkpoint(self, running: dict[str, Any]) -> None:
        finished = [{name: value for name, value in seed.items() if name != "best"} for seed in self.finished]
        write_state(self.path / "checkpoint.pt", {"finished": finished, "running": running})

    def complete(self, metrics: dict[str, Any]) -> None:
        write_whole(self.path / "metrics.json", json.dumps(metrics, indent=1) + "\n")


def read_metrics(folder: Path) -> dict[str, Any]:
    """What a folder's ``metrics.json`` says; nothing where there is none, or a broken one: it can be made anew."""
    try:
        found = json.loads((folder / "metrics.json").read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) and "val" in found else {}


def fingerprint(data: Dataset) -> str:
    """A number that is another one for other graphs, features, labels or splits."""
    found = hashlib.sha256()
    for g in data.graphs:
        fields = [*g.edges(), *(g.ndata[name] for name in ("feat", "label", *(f"{split}_mask" for split in SPLITS)))]
        for tensor in fields:
            array = tensor.cpu().contiguous().numpy()
            found.update(f"{array.dtype}{array.shape}".encode())
            found.update(array.data if array.size else b"")
    return found.hexdigest()


def check_data(folder: Path, seed: int, data: Dataset, remember: bool = False) -> None:
    """Refuses data that is not what a run's seed was trained on; remembers it, if wanted, where the seed is new."""
    path = folder / "data.json"
    try:
        known = json.loads(path.read_text()) if path.exists() else {}
    except ValueError as error:
        raise ValueError(f"{path} is broken ({error}). Delete it if the run's data is what it was") from error
    now = fingerprint(data)
    if known.setdefault(str(seed), now) != now:
        raise ValueError(
            f"{folder} was trained on other data: {data.name} has changed since. Bring the old data back, or train in "
            "another folder"
        )
    if remember:
        write_whole(path, json.dumps(known, indent=1) + "\n")


def _line(seed: int, row: dict[str, Any]) -> str:
    return json.dumps({"seed": seed, **row}) + "\n"


def _tensorboard(path: Path, epoch: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(path), purge_step=epoch)

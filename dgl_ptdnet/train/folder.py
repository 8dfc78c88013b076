"""The folder of a run. Each file in it is complete at any moment, so a run that was killed can be resumed."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ..data import Dataset
from ..data.dataset import SPLITS
from ..errors import first_line
from .atomic import locked, write_atomic
from .results import BestState, Epoch, Metrics, SeedResult, SeedRun
from .settings import Settings, read_settings

if TYPE_CHECKING:
    from .loop import Trainer

_CHECKPOINT_SECONDS = 0.5
_VERSION = 2
_BROKEN = (KeyError, ValueError, TypeError, AttributeError, IndexError, RuntimeError)  # from contents that are wrong


def write_state(path: Path, state: Mapping[str, Any]) -> None:
    """Writes a checkpoint file."""
    buffer = io.BytesIO()
    torch.save({"version": _VERSION, **state}, buffer)
    write_atomic(path, buffer.getvalue())


@contextmanager
def naming(path: Path, remedy: str) -> Iterator[None]:
    """Turns errors from the contents of a file into one that names the file."""
    try:
        yield
    except _BROKEN as error:
        what = f"{type(error).__name__}: " if isinstance(error, (KeyError, IndexError)) else ""
        raise ValueError(f"{path} is broken or from another version ({what}{first_line(error)}). {remedy}") from error


def read_state(path: Path, remedy: str) -> dict[str, Any]:
    """Reads what :func:`write_state` wrote. Only tensors and plain values are loaded; no code is run."""
    with naming(path, remedy):
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            raise
        except pickle.UnpicklingError as error:  # torch's own message advises to load the file unsafely
            raise ValueError("it is not a file of tensors and numbers only") from error
        except Exception as error:  # a broken file raises nearly anything
            raise ValueError(first_line(error)) from error
        if state["version"] != _VERSION:
            raise ValueError(f"it is of version {state['version']}")
    return state


def read_model(path: Path, remedy: str) -> tuple[SeedRun, int]:
    """A finished seed, and the setting ``epochs`` with which it was trained."""
    state = read_state(path, remedy)
    with naming(path, remedy):
        history = [Epoch.from_json(row) for row in state["history"]]
        result, best = SeedResult.from_json(state["result"]), BestState.from_state(state["best"])
        return SeedRun(result, history, state["degrees"], best), int(state["epochs"])


class RunFolder:
    """The files of a run of several seeds.

    ``settings.toml``: the settings. ``data.json``: a fingerprint of the data, to detect changes on resume.
    ``state-SEED.pt``: all that is needed to resume a seed. ``model-SEED.pt``: result and best network of a seed that
    has finished. ``log.jsonl``: a line for each epoch. ``metrics.json`` and pictures: written when all seeds have
    finished.
    """

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path, self.settings = path, settings
        self.finished: list[SeedRun] = []
        self._written, self._pause = time.monotonic(), _CHECKPOINT_SECONDS
        self._board: Any = None
        if (path / "settings.toml").exists():
            self._open()
        else:
            write_atomic(path / "settings.toml", settings.to_toml())

    @classmethod
    @contextmanager
    def open(cls, path: Path, settings: Settings) -> Iterator[RunFolder]:
        """The folder of a new run or of one to be resumed, locked for this process."""
        path.mkdir(parents=True, exist_ok=True)
        others = any(not file.name.startswith(".") for file in path.iterdir())
        if others and not (path / "settings.toml").exists():
            raise ValueError(f"{path} is not empty, and not the folder of a run. Choose another --out, or empty it")
        with locked(path):
            yield cls(path, settings)

    def _open(self) -> None:
        theirs, ours = read_settings(self.path / "settings.toml"), asdict(self.settings)
        differ = [name for name in ours if theirs.get(name) != (list(x) if isinstance(x := ours[name], tuple) else x)]
        more = differ == ["epochs"] and isinstance(theirs.get("epochs"), int) and theirs["epochs"] < ours["epochs"]
        if differ and not more:
            changes = ", ".join(f"{name} = {theirs.get(name)!r} there, {ours[name]!r} here" for name in differ)
            raise ValueError(f"{self.path} holds a run with other settings ({changes}). Choose another --out")
        if more:
            write_atomic(self.path / "settings.toml", self.settings.to_toml())
        for seed in range(self.settings.first_seed, self.settings.first_seed + self.settings.seeds):
            path = self._model(seed)
            if not path.exists():
                break
            run, epochs = read_model(path, "Delete it to train this seed again")
            if run.result.seed != seed:
                raise ValueError(f"{path} is of seed {run.result.seed}. Delete it to train this seed again")
            if epochs != self.settings.epochs:
                break
            self.finished.append(run)
        if not self.complete:
            rows = [_line(run.result.seed, row) for run in self.finished for row in run.history]
            write_atomic(self.path / "log.jsonl", "".join(rows))

    @property
    def complete(self) -> bool:
        """Whether all seeds have finished."""
        return len(self.finished) == self.settings.seeds

    def _model(self, seed: int) -> Path:
        return self.path / f"model-{seed}.pt"

    def _state(self, seed: int) -> Path:
        return self.path / f"state-{seed}.pt"

    def resume(self, trainer: Trainer) -> None:
        """Sets a new trainer to the state that is stored for its seed, if there is one."""
        path, remedy = self._state(trainer.seed), "Delete it to train this seed again"
        if path.exists():
            state = read_state(path, remedy)
            with naming(path, remedy):
                trainer.load_state_dict(state)
            self._log(trainer.seed, trainer.history)
        self._board = _tensorboard(self.path / "tensorboard" / f"seed-{trainer.seed}", trainer.epoch)

    def _log(self, seed: int, rows: list[Epoch]) -> None:
        with open(self.path / "log.jsonl", "a", encoding="utf-8") as file:
            file.write("".join(_line(seed, row) for row in rows))

    def epoch(self, trainer: Trainer, row: Epoch) -> None:
        """Logs an epoch, and writes a checkpoint if the last one is old enough."""
        self._log(trainer.seed, [row])
        if self._board:
            for name, value in row.to_json().items():
                values = {f"{name}/{k}": x for k, x in enumerate(value)} if isinstance(value, list) else {name: value}
                for tag, number in values.items():
                    self._board.add_scalar(tag, number, row.epoch)
        if time.monotonic() - self._written >= self._pause:
            begin = time.monotonic()
            write_state(self._state(trainer.seed), trainer.state_dict())
            self._written = time.monotonic()
            self._pause = max(_CHECKPOINT_SECONDS, 20 * (self._written - begin))  # at most a twentieth of the time

    def end_seed(self, trainer: Trainer) -> SeedRun:
        """Tests the best network of a seed, and writes it, its result, and the state for training it longer."""
        write_state(self._state(trainer.seed), trainer.state_dict())
        run = trainer.finish()
        best, history = run.best.to_state(), [row.to_json() for row in run.history]
        figures = {"result": run.result.to_json(), "history": history, "degrees": run.degrees, "best": best}
        write_state(self._model(trainer.seed), {"epochs": self.settings.epochs, **figures})
        if self._board:
            self._board.close()
        return run

    def write_metrics(self, metrics: Metrics) -> None:
        write_atomic(self.path / "metrics.json", json.dumps(metrics.to_json(), indent=1) + "\n")


def read_metrics(folder: Path) -> Metrics | None:
    """The ``metrics.json`` of a folder; None if it is missing or broken: it can be computed again."""
    try:
        return Metrics.from_json(json.loads((folder / "metrics.json").read_text()))
    except (FileNotFoundError, ValueError):
        return None


def fingerprint(data: Dataset) -> str:
    """A hash of the graphs, features, labels and splits."""
    found = hashlib.sha256()
    for g in data.graphs:
        fields = [*g.edges(), *(g.ndata[name] for name in ("feat", "label", *(f"{split}_mask" for split in SPLITS)))]
        for tensor in fields:
            array = tensor.cpu().contiguous().numpy()
            found.update(f"{array.dtype}{array.shape}".encode())
            found.update(array.data if array.size else b"")
    return found.hexdigest()


def check_data(folder: Path, seed: int, data: Dataset, remember: bool = False) -> None:
    """Raises an error if the data differs from that on which the seed was trained. With ``remember`` the fingerprint
    of a new seed's data is stored."""
    path = folder / "data.json"
    try:
        known = json.loads(path.read_text()) if path.exists() else {}
        if not isinstance(known, dict):
            raise ValueError("it holds no names and values")
    except ValueError as error:
        raise ValueError(f"{path} is broken ({first_line(error)}). Delete it if the data is unchanged") from error
    now = fingerprint(data)
    if known.setdefault(str(seed), now) != now:
        raise ValueError(
            f"{folder} was trained on other data: {data.name} has changed since. Restore the old data, or train in "
            "another folder"
        )
    if remember:
        write_atomic(path, json.dumps(known, indent=1) + "\n")


def _line(seed: int, row: Epoch) -> str:
    return json.dumps({"seed": seed, **row.to_json()}) + "\n"


def _tensorboard(path: Path, epoch: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(path), purge_step=epoch)

"""What a job is, and what it does.

A job is a dict that JSON can hold, and the same dict is the same job:

- ``"settings"``: those of a run of one seed, as far as they differ from :class:`Settings`' own values;
- ``"data"``: how its graph differs from the data set's, see :func:`graph_of`;
- ``"measure"``: the name of a study whose function ``measure(job, data_dir)`` is called in the place of training;
- ``"alone"``: true where time is measured.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ..data import Dataset, load, planted, synthetic
from ..pruning import keep_edges
from ..train import Settings, resolve, train

_NAMED = ("dataset", "backbone", "method", "first_seed")
_GENERATED: dict[str, Callable[..., Dataset]] = {"synthetic": synthetic, "planted": planted}


@dataclass(frozen=True)
class Plan:
    """What is asked for: everything, or a smoke version with small generated graphs in the place of all data.

    Parameters
    ----------
    quick : bool
        The smoke version.
    noise_kind : str
        That of the noise study's runs. Kinds other than uniform are run at the largest number of pairs.
    files : tuple[str, ...]
        Data sets of the user's own, which the classification study takes as well.
    """

    quick: bool = False
    noise_kind: str = "uniform"
    files: tuple[str, ...] = ()

    def seeds(self, number: int) -> range:
        """The seeds of a study that wants so many."""
        return range(2 if self.quick else number)

    def few(self, values: Any) -> list[Any]:
        """All values of an axis, or its ends."""
        return [values[0], values[-1]] if self.quick else list(values)

    def job(self, seed: int, data: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
        """A training run."""
        return self.job_of(resolve(given, seeds=1, first_seed=seed), data)

    def job_of(self, settings: Settings, data: dict[str, Any] | None = None) -> dict[str, Any]:
        """A training run with given settings."""
        data = dict(data or {})
        if self.quick:
            noise = settings.noise_edges // 100
            settings = replace(settings, epochs=3, hidden=4, noise_edges=noise, min_epochs=0, samples=1)
            small = {"class_size": 20} if data.get("make", "synthetic") == "synthetic" else {"num_nodes": 70}
            data = {"make": "synthetic", **data, **small, "num_pairs": 300}
        job = {"settings": as_changes(settings)}
        return {**job, "data": data} if data else job


def own_values() -> dict[str, Any]:
    """What :class:`Settings` has by itself, as JSON has it."""
    return {s.name: list(s.default) if isinstance(s.default, tuple) else s.default for s in fields(Settings)}


def as_changes(settings: Settings) -> dict[str, Any]:
    """What the run is called by, and the settings that differ from the values that :class:`Settings` has by itself."""
    values = {name: getattr(settings, name) for name in own_values()}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return {name: values[name] for name, default in own_values().items() if name in _NAMED or values[name] != default}


def settings_of(job: dict[str, Any]) -> Settings:
    """The settings of a job."""
    return Settings(**job["settings"])


def name_of(job: dict[str, Any]) -> str:
    """What ``--dataset`` calls a job's data, and what its file of defaults is called: ``cora``, ``cora+20000``,
    ``cora-link``."""
    s = settings_of(job)
    return s.dataset + (f"+{s.noise_edges}" if s.noise_edges else "") + ("" if s.task == "node" else f"-{s.task}")


def group_of(job: dict[str, Any]) -> str:
    """The file of a job's record: that of its data set, or of the study that measures."""
    return job.get("measure") or Path(settings_of(job).dataset).stem


def graph_of(job: dict[str, Any], data_dir: str | os.PathLike[str] | None) -> Dataset:
    """The data of a job, without noise: that of its settings, or, by ``job["data"]``, ``{"make": "synthetic" or
    "planted", ...}`` with arguments for these; ``"remove": [same, share]`` takes away a share of the edges between
    nodes of the same, or of different label."""
    spec, settings = dict(job.get("data", {})), settings_of(job)
    make, remove = spec.pop("make", ""), spec.pop("remove", None)
    seed = settings.first_seed
    data = _GENERATED[make](seed, **spec) if make else load(settings.dataset, data_dir, seed=seed)
    if remove is None:
        return data
    graphs = [_without(g, remove[0], remove[1], seed) for g in data.graphs]
    return Dataset(data.name, graphs, data.num_classes, data.multilabel)


def _without(g: Any, same: bool, share: float, seed: int) -> Any:
    src, dst = g.edges()
    low, high = torch.minimum(src, dst), torch.maximum(src, dst)
    pairs, pair_of = torch.stack([low, high]).unique(dim=1, return_inverse=True)
    label = g.ndata["label"]
    chosen = ((label[pairs[0]] == label[pairs[1]]) == same).nonzero().flatten()
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))
    dropped = torch.zeros(pairs.shape[1], dtype=torch.bool)
    dropped[chosen[order[: round(share * len(chosen))]]] = True
    return keep_edges(g, (~dropped[pair_of]).nonzero().flatten())


def execute(job: dict[str, Any], data_dir: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """Does a job, and returns its figures."""
    if "measure" in job:
        return rounded(import_module(f".{job['measure']}", __package__).measure(job, data_dir))
    done = train(replace(settings_of(job), threads=1), graph_of(job, data_dir), progress=False).seeds[0]
    figures = {"val_loss": done["best"]["val_loss"], **done["result"]}
    del figures["seeds"]
    return rounded(figures)


def rounded(value: Any) -> Any:
    """Figures as they are written: six digits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: rounded(x) for name, x in value.items()}
    return [rounded(x) for x in value] if isinstance(value, (list, tuple)) else value

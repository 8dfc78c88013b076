"""Jobs: what a study runs. Equal jobs are run once, whatever studies they are in."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ..data import Dataset, load, planted, synthetic
from ..data.names import DataName
from ..pairs import pair_ends, pair_ids
from ..pruning import keep_edges
from ..train import Settings, resolve, train
from ..train.results import JsonRecord, SeedResult
from . import STUDIES

_NAMED = ("dataset", "backbone", "method", "seeds", "first_seed")  # written even where they are the defaults
_MAKERS: dict[str, Callable[..., Dataset]] = {"synthetic": synthetic, "planted": planted}


@dataclass(frozen=True)
class Variant:
    """How the graph of a job differs from that of its data set.

    Attributes
    ----------
    make : str
        ``"synthetic"`` or ``"planted"``: generate the graph. Default: load the data set.
    options : tuple
        Names and values of the generator's arguments.
    remove : tuple, optional
        ``(True, share)`` removes a share of the edges between nodes with equal labels, ``(False, share)`` of those
        between different labels.
    """

    make: str = ""
    options: tuple[tuple[str, float], ...] = ()
    remove: tuple[bool, float] | None = None

    @classmethod
    def of(cls, make: str = "", remove: tuple[bool, float] | None = None, **options: float) -> Variant:
        """A variant with the generator's arguments by name."""
        return cls(make, tuple(sorted(options.items())), remove)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"make": self.make, **dict(self.options)} if self.make else {}
        return found if self.remove is None else {**found, "remove": list(self.remove)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Variant:
        values = dict(found)
        make, remove = values.pop("make", ""), values.pop("remove", None)
        return cls.of(make, None if remove is None else (remove[0], remove[1]), **values)


@dataclass(frozen=True)
class Job:
    """A run of one seed, or a measurement.

    Attributes
    ----------
    settings : Settings
        All settings of the run.
    variant : Variant
        How its graph differs from that of the data set. Default: it does not.
    measure : str
        The study whose function ``measure(job, data_dir)`` is called instead of training.
    what : str
        What this function measures, if it measures several things.
    alone : bool
        Whether time is measured, so that nothing may run beside it. Default: False.
    """

    settings: Settings
    variant: Variant = Variant()
    measure: str = ""
    what: str = ""
    alone: bool = False

    @property
    def name(self) -> str:
        """What ``--dataset`` calls the job's data: ``cora``, ``cora+20000``, ``cora-link``."""
        return str(DataName(self.settings.dataset, self.settings.noise_edges, self.settings.task))

    @property
    def group(self) -> str:
        """The name of the file with the job's record: that of its data set, or of the study that measures."""
        return self.measure or Path(self.settings.dataset).stem

    def to_json(self, defaults: Mapping[str, Any]) -> dict[str, Any]:
        """For a file; settings that are equal to ``defaults`` are left out."""
        values = as_json(self.settings)
        changes = {name: x for name, x in values.items() if name in _NAMED or defaults[name] != x}
        found: dict[str, Any] = {"settings": changes}
        if variant := self.variant.to_json():
            found["data"] = variant
        rest = {"measure": self.measure, "what": self.what, "alone": self.alone}
        return {**found, **{name: x for name, x in rest.items() if x}}

    @classmethod
    def from_json(cls, found: Mapping[str, Any], defaults: Mapping[str, Any]) -> Job:
        """The reverse of :meth:`to_json`."""
        rest = {name: found[name] for name in ("measure", "what", "alone") if name in found}
        return cls(Settings(**{**defaults, **found["settings"]}), Variant.from_json(found.get("data", {})), **rest)


def as_json(settings: Settings) -> dict[str, Any]:
    """All settings by name, as JSON holds them."""
    values = {setting.name: getattr(settings, setting.name) for setting in fields(Settings)}
    return {name: list(x) if isinstance(x, tuple) else x for name, x in values.items()}


def default_values() -> dict[str, Any]:
    """The defaults of :class:`Settings`, as JSON holds them."""
    return as_json(Settings())


@dataclass(frozen=True)
class Plan:
    """What ``dgl-ptdnet reproduce`` was asked for.

    Parameters
    ----------
    quick : bool
        A quick check of everything, with small generated graphs instead of the data sets. Default: False.
    noise_kind : str
        The kind of noise in the noise study. Default: ``"uniform"``.
    files : tuple[str, ...]
        The user's own data sets, for the classification study.
    """

    quick: bool = False
    noise_kind: str = "uniform"
    files: tuple[str, ...] = ()

    def seeds(self, number: int) -> range:
        """The seeds of a study with this number of seeds."""
        return range(2 if self.quick else number)

    def few(self, values: Any) -> list[Any]:
        """All values of an axis; with ``quick`` only the first and the last."""
        return [values[0], values[-1]] if self.quick else list(values)

    def job(self, seed: int, variant: Variant = Variant(), **given: Any) -> Job:  # noqa: B008 (frozen)
        """A training run with the given settings, and defaults for the others."""
        return self.job_of(resolve(given, seeds=1, first_seed=seed), variant)

    def job_of(self, settings: Settings, variant: Variant = Variant()) -> Job:  # noqa: B008
        """A training run with these settings."""
        if self.quick:
            noise = settings.noise_edges // 100
            settings = replace(settings, epochs=3, hidden=4, noise_edges=noise, min_epochs=0, gate_samples=1)
            make = variant.make or "synthetic"
            small = {"class_size": 20} if make == "synthetic" else {"num_nodes": 70}
            variant = Variant.of(make, variant.remove, **{**dict(variant.options), **small, "num_pairs": 300})
        return Job(settings, variant)


def data_of(job: Job, data_dir: str | os.PathLike[str] | None) -> Dataset:
    """The data of a job, without the noise edges of its settings."""
    variant, seed = job.variant, job.settings.first_seed
    if variant.make:
        data = _MAKERS[variant.make](seed, **dict(variant.options))
    else:
        data = load(job.settings.dataset, data_dir, seed=seed)
    if variant.remove is None:
        return data
    graphs = [_without(g, *variant.remove, seed) for g in data.graphs]
    return Dataset(data.name, graphs, data.num_classes, data.multilabel)


def _without(g: Any, same: bool, share: float, seed: int) -> Any:
    src, dst = g.edges()
    ids, pair_of = pair_ids(src, dst).unique(return_inverse=True)
    u, v = pair_ends(ids)
    label = g.ndata["label"]
    chosen = ((label[u] == label[v]) == same).nonzero().flatten()
    order = torch.randperm(len(chosen), generator=torch.Generator().manual_seed(seed))
    dropped = torch.zeros(len(ids), dtype=torch.bool)
    dropped[chosen[order[: round(share * len(chosen))]]] = True
    return keep_edges(g, (~dropped[pair_of]).nonzero().flatten())


def figures_of(job: Job) -> type[JsonRecord]:
    """The class of a job's figures."""
    if not job.measure:
        return SeedResult
    if job.measure not in STUDIES.values():
        raise ValueError(f"there is no study {job.measure!r} that measures; there are {', '.join(STUDIES.values())}")
    found: dict[str, type[JsonRecord]] = import_module(f".{job.measure}", __package__).FIGURES
    return found[job.what]


def execute(job: Job, data_dir: str | os.PathLike[str] | None = None) -> JsonRecord:
    """Runs a job; returns its figures with six digits."""
    if job.measure:
        found: JsonRecord = import_module(f".{job.measure}", __package__).measure(job, data_dir)
    else:
        found = train(replace(job.settings, threads=1), data_of(job, data_dir), progress=False).seeds[0].result
    return type(found).from_json(_rounded(found.to_json()))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _rounded(x) for name, x in value.items()}
    return [_rounded(x) for x in value] if isinstance(value, list) else value

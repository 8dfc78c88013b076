"""The search for settings: what is tried, in which order, and what is best, by validation alone."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from zlib import crc32

from ..errors import first_line
from .atomic import locked, write_atomic
from .loop import NotFiniteError
from .results import SeedResult
from .run import train
from .settings import DEFAULTS, Settings, merged, read_toml, to_toml

FINALISTS = 4  # one trial in four is run with all seeds
_NOT_SEARCHED_FOR = ("seeds", "first_seed", "threads", "device")  # left out of best.toml


def import_optuna() -> Any:
    """Imports Optuna, which only searches need."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError("a search for settings needs Optuna: pip install optuna") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@dataclass(frozen=True)
class Choice:
    """A setting that takes one of several values."""

    values: tuple[Any, ...]

    def distribution(self) -> Any:
        return import_optuna().distributions.CategoricalDistribution(self.values)


@dataclass(frozen=True)
class Range:
    """A setting between ``low`` and ``high``; ``log``: drawn uniformly in the logarithm; ``step``: in steps."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def distribution(self) -> Any:
        distributions = import_optuna().distributions
        if isinstance(self.low, int) and isinstance(self.high, int):
            return distributions.IntDistribution(self.low, self.high, self.log, 1 if self.step is None else self.step)
        return distributions.FloatDistribution(self.low, self.high, self.log, self.step)


Space = dict[str, "Choice | Range"]


def read_space(settings: Settings, path: str | os.PathLike[str] | None = None) -> Space:
    """Reads what is searched for a backbone and method: lists of values, or ranges ``{low, high, log, step}``.

    Parameters
    ----------
    settings : Settings
        Their backbone, method and task choose the tables of the file.
    path : str, optional
        A TOML file. Default: the package's ``defaults/space.toml``.
    """
    path = Path(path) if path else DEFAULTS / "space.toml"
    space: Space = {}
    for name, what in merged(read_toml(path), asdict(settings), str(path)).items():
        try:
            space[name] = dimension = _dimension(what)
            for value in dimension.values if isinstance(dimension, Choice) else (dimension.low, dimension.high):
                replace(settings, **{name: value})
            dimension.distribution()
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {name} cannot be searched: {first_line(error)}") from error
    if not space:
        raise ValueError(f"{path} has nothing to search for {settings.method} with {settings.backbone}")
    return space


def _dimension(what: Any) -> Choice | Range:
    if isinstance(what, list) and what:
        return Choice(tuple(tuple(x) if isinstance(x, list) else x for x in what))
    if isinstance(what, dict) and {"low", "high"} <= set(what) <= {"low", "high", "log", "step"}:
        if not all(type(x) in ((bool,) if name == "log" else (int, float)) for name, x in what.items()):
            raise ValueError(f"low, high and step must be numbers, log true or false; got {what}")
        if not what["low"] <= what["high"] or what.get("step", 1) <= 0 or (what.get("log") and "step" in what):
            raise ValueError(f"low must not exceed high, step must be positive, and not used with log; got {what}")
        return Range(**what)
    raise ValueError(f"it must be a list of values, or a range with low, high and, optionally, log, step; got {what}")


def trials_of(settings: Settings, space: Space, number: int) -> list[dict[str, Any]]:
    """The values to try: first those of the settings, then random draws.

    Draws of a setting depend only on its name and the number of the trial. So all methods are tried with the same
    values of the settings that they share, and no method wins by luckier draws; more trials keep the first ones.
    """
    optuna = import_optuna()
    drawn = [{name: getattr(settings, name) for name in space}, *({} for _ in range(number - 1))]
    for name, what in space.items():
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=crc32(name.encode())))
        for trial in drawn[1:]:
            value = study.ask({name: what.distribution()}).params[name]
            trial[name] = float(f"{value:.3g}") if isinstance(value, float) else value
    return drawn


class Score(NamedTuple):
    """The validation of a run: its metric, then its loss."""

    val: float
    val_loss: float

    @classmethod
    def of(cls, result: SeedResult) -> Score:
        return cls(result.val, result.val_loss)


_FAILED = Score(0.0, math.inf)  # of a run whose loss was NaN or infinite

Run = tuple[int, int]  # the number of a trial, and a seed


@dataclass(frozen=True)
class Search:
    """One search: every trial is run with the first seed, the best quarter with the other seeds; of these the best is
    taken, by the mean over seeds of the validation metric, and where this is equal by the validation loss.

    It says what to run; the caller runs it and brings the scores.
    """

    settings: Settings
    trials: list[dict[str, Any]]
    seeds: range

    def settings_of(self, run: Run) -> Settings:
        """The settings of a run."""
        trial, seed = run
        return replace(self.settings, **self.trials[trial], first_seed=seed, seeds=1)

    def first_runs(self) -> list[Run]:
        """Every trial with the first seed."""
        return [(trial, self.seeds[0]) for trial in range(len(self.trials))]

    def finalists(self, scores: Mapping[Run, Score]) -> list[int]:
        """The best quarter of the trials, by the scores of the first runs."""
        return self._ordered(range(len(self.trials)), self.seeds[:1], scores)[: max(1, len(self.trials) // FINALISTS)]

    def more_runs(self, scores: Mapping[Run, Score]) -> list[Run]:
        """The finalists with the other seeds."""
        return [(trial, seed) for trial in self.finalists(scores) for seed in self.seeds[1:]]

    def best(self, scores: Mapping[Run, Score]) -> int:
        """The best of the finalists, by all scores."""
        return self._ordered(self.finalists(scores), self.seeds, scores)[0]

    def _ordered(self, trials: Any, seeds: range, scores: Mapping[Run, Score]) -> list[int]:
        def mean(trial: int) -> tuple[float, float]:
            found = [scores[trial, seed] for seed in seeds]
            return fmean(score.val for score in found), -fmean(score.val_loss for score in found)

        return sorted(trials, key=mean, reverse=True)


def sweep(
    settings: Settings,
    out: str | os.PathLike[str],
    *,
    trials: int = 16,
    data: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
    space: str | os.PathLike[str] | None = None,
    say: Callable[[str], Any] = lambda line: None,
) -> dict[str, Any]:
    """Searches settings as :class:`Search` says, and writes the best into a folder.

    Parameters
    ----------
    settings : Settings
        All settings that are not searched, and the number of seeds. The first trial is these settings themselves.
    out : str
        A folder. ``study.db`` is an Optuna study with all runs, from which the same call resumes. ``trials.jsonl`` has
        a line for each trial, ``best.toml`` the best settings, for ``--config``.
    trials : int
        Total number of trials. Default: 16.
    data, data_dir
        As for :func:`train`.
    space : str, optional
        A TOML file that says what is searched. Default: the package's ``defaults/space.toml``.
    say : callable
        Called with a line of text after each run.

    Returns
    -------
    dict
        The best values of the searched settings, by name.

    Notes
    -----
    A search that was interrupted and resumed finds the same. The test split is not used.
    """
    if trials < 1:
        raise ValueError(f"trials must be at least 1; got {trials}")
    found, folder = read_space(settings, space), Path(out)
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    search = Search(settings, trials_of(settings, found, trials), seeds)
    with locked(folder):
        study = _Study(folder / "study.db", settings, found)
        scores = study.scores()
        for more in (Search.first_runs, lambda search: search.more_runs(scores)):
            runs = more(search)
            for place, run in enumerate(runs, 1):
                if run not in scores:
                    scores[run] = _score(search.settings_of(run), data, data_dir)
                    study.add(search, run, scores[run])
                say(f"trial {run[0]}, seed {run[1]} ({place} of {len(runs)}): validation {scores[run].val:.4f}")
        best = search.trials[search.best(scores)]
        lines = []
        for number, values in enumerate(search.trials):
            of_seeds = [scores[number, seed].val for seed in seeds if (number, seed) in scores]
            lines.append(json.dumps({"validation": fmean(of_seeds), "seeds": len(of_seeds), **values}) + "\n")
        write_atomic(folder / "trials.jsonl", "".join(lines))
        kept = {name: value for name, value in asdict(settings).items() if name not in _NOT_SEARCHED_FOR}
        write_atomic(folder / "best.toml", to_toml({**kept, **best}))
    return best


def _score(settings: Settings, data: Any, data_dir: Any) -> Score:
    try:
        return Score.of(train(settings, data, data_dir=data_dir).seeds[0].result)
    except NotFiniteError:
        return _FAILED


class _Study:
    """An Optuna study in a file, with a trial for each run."""

    def __init__(self, path: Path, settings: Settings, space: Space) -> None:
        self.path, self.space = path, space
        optuna = import_optuna()
        about = json.dumps({"settings": asdict(settings), "space": {name: asdict(x) for name, x in space.items()}})
        connect = {"creator": lambda: sqlite3.connect(path)}  # in an address ? and % would have a meaning of their own
        self.study = self._try(
            lambda: optuna.create_study(
                storage=optuna.storages.RDBStorage("sqlite://", engine_kwargs=connect),
                study_name="sweep",
                direction="maximize",
                load_if_exists=True,
            )
        )
        if self.study.user_attrs.get("about", about) != about:
            raise ValueError(f"{path.parent} holds a sweep with other settings or another space. Choose another --out")
        self._try(lambda: self.study.set_user_attr("about", about))

    def _try(self, use: Callable[[], Any]) -> Any:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return use()
        except (SQLAlchemyError, import_optuna().exceptions.StorageInternalError) as error:
            raise OSError(
                f"{self.path} cannot be read or written ({first_line(error.__cause__ or error)}). If the disk is full "
                "or the folder is read-only, change that and run the same command again; if the file is broken, "
                "delete it to start again"
            ) from error

    def scores(self) -> dict[Run, Score]:
        """The scores of the runs that have finished."""
        found = self._try(lambda: self.study.trials)
        told = [trial.user_attrs for trial in found]
        return {(of["trial"], of["seed"]): Score(of["val"], of.get("val_loss", math.inf)) for of in told}

    def add(self, search: Search, run: Run, score: Score) -> None:
        optuna = import_optuna()
        attributes = {"trial": run[0], "seed": run[1], "val": score.val}
        if math.isfinite(score.val_loss):  # JSON has no infinity
            attributes["val_loss"] = score.val_loss
        trial = optuna.trial.create_trial(
            value=score.val,
            user_attrs={**attributes, "values": search.trials[run[0]]},
        )
        self._try(lambda: self.study.add_trial(trial))

"""A search for settings, by validation alone, that goes on where it was."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Callable

from .loop import NotFiniteError
from .run import train
from .settings import DEFAULTS, Settings, merged, read_toml, to_toml
from .write import write_whole

_NOT_OF_A_NETWORK = ("seeds", "first_seed", "threads", "device")  # what a search's runs have for its own sake


def import_optuna() -> Any:
    """Optuna, which is needed for searches alone."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError("a search for settings needs Optuna: pip install optuna") from error
    return optuna


def search_space(settings: Settings, path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """What is searched for a backbone and method: lists of values, or ranges ``{low, high, log, step}``."""
    path = Path(path) if path else DEFAULTS / "space.toml"
    found = merged(read_toml(path), asdict(settings), str(path))
    for name, what in found.items():
        ranges = isinstance(what, dict) and {"low", "high"} <= set(what) <= {"low", "high", "log", "step"}
        if not (ranges or (isinstance(what, list) and what)):
            raise ValueError(f"{path}: {name} must be a list, or a range with low, high and, if wanted, log, step")
    return found


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
    """Searches settings with Optuna and returns the best, by the mean over seeds of the validation metric.

    Parameters
    ----------
    settings : Settings
        What is not searched; the first trial is these settings themselves, as far as the space has them.
    out : str
        A folder. ``study.db`` holds the study: the same call goes on with it. ``best.toml`` are the best settings,
        for ``--config``; ``trials.jsonl`` has a line for every trial.
    trials : int
        How many trials there are in the end.
    data, data_dir
        As those of :func:`train`.
    space : str, optional
        A TOML file with what is searched, in the place of the package's ``defaults/space.toml``.
    say : callable
        Is given a line for each trial that ends.

    Returns
    -------
    dict
        The searched settings that were best, by name.

    Notes
    -----
    What a trial tries depends on the trials before it and its number alone, so a search that was ended and begun again
    finds the same. The test split is not looked at.
    """
    if trials < 1:
        raise ValueError(f"trials must be at least 1; got {trials}")
    optuna = import_optuna()
    from sqlalchemy.exc import SQLAlchemyError

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder, chosen = Path(out), search_space(settings, space)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return _search(settings, folder, chosen, trials, data, data_dir, say)
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise OSError(
            f"{folder / 'study.db'} cannot be read or written ({reason}). Where the disk is full or the folder closed, "
            "change that and run the same command again; where the file is broken, delete it to begin anew"
        ) from error


def _search(
    settings: Settings,
    folder: Path,
    chosen: dict[str, Any],
    trials: int,
    data: Any,
    data_dir: Any,
    say: Callable[[str], Any],
) -> dict[str, Any]:
    import optuna

    study = optuna.create_study(
        storage=f"sqlite:///{folder / 'study.db'}", study_name="sweep", direction="maximize", load_if_exists=True
    )
    about = json.dumps({"settings": asdict(settings), "space": chosen})
    if study.user_attrs.setdefault("about", about) != about:
        raise ValueError(f"{folder} holds a sweep with other settings or another space. Choose another --out")
    study.set_user_attr("about", about)
    for trial in study.get_trials(states=[optuna.trial.TrialState.RUNNING]):  # ended from outside
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(trial.params or trial.system_attrs.get("fixed_params", {}))
    if not study.trials:
        study.enqueue_trial(
            {name: value for name, value in asdict(settings).items() if _inside(value, chosen.get(name))}
        )

    def objective(trial: Any) -> float:
        values = {name: suggest(trial, name, what) for name, what in chosen.items()}
        try:
            metrics = train(replace(settings, **values), data, data_dir=data_dir).metrics
        except NotFiniteError:  # as bad as can be
            return 0.0
        return sum(metrics["val"]) / len(metrics["val"])

    while (number := len(_done(study))) < trials:
        study.sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=max(4, trials // 3))
        study.optimize(objective, n_trials=1)
        last = _done(study)[-1]
        say(f"trial {number + 1} of {trials}: validation {last.value:.4f}, best {study.best_value:.4f}")
    lines = [json.dumps({"validation": trial.value, **trial.params}) for trial in _done(study)]
    write_whole(folder / "trials.jsonl", "\n".join(lines) + "\n")
    best = {**{k: v for k, v in asdict(settings).items() if k not in _NOT_OF_A_NETWORK}, **study.best_params}
    write_whole(folder / "best.toml", to_toml(best))
    return study.best_params


def _done(study: Any) -> list[Any]:
    return [trial for trial in study.trials if trial.state.name == "COMPLETE"]


def _inside(value: Any, what: Any) -> bool:
    return value in what if isinstance(what, list) else what is not None and what["low"] <= value <= what["high"]


def suggest(trial: Any, name: str, what: Any) -> Any:
    if isinstance(what, list):
        return trial.suggest_categorical(name, what)
    whole = isinstance(what["low"], int) and isinstance(what["high"], int)
    return (trial.suggest_int if whole else trial.suggest_float)(name, **what)

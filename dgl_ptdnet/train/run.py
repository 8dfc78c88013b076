"""Runs of several seeds, in a folder from which they can be resumed."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Callable

from tqdm import tqdm

from .._dgl import dgl
from ..data import Dataset, add_noise_edges, load
from .folder import RunFolder, check_data, naming, read_metrics, read_model
from .loop import Trainer
from .plots import draw
from .results import Metrics, SeedRun
from .settings import Settings, read_settings
from .tasks import make_task


@dataclass
class Result:
    """What :func:`train` returns.

    Attributes
    ----------
    settings : Settings
        The settings.
    metrics : Metrics
        The contents of ``metrics.json``: ``val`` and ``test`` of each seed, ``mean`` and ``std`` of the test, and more.
    seeds : list[SeedRun]
        For each seed its ``result``, its ``history`` (an :class:`Epoch` for each epoch) and its ``best`` state.

    Examples
    --------
    >>> from dgl_ptdnet.train import resolve, train
    >>> result = train(resolve(dataset="synthetic", method="basic", seeds=2, epochs=3))
    >>> len(result.metrics.test), len(result.seeds[0].history)
    (2, 3)
    """

    settings: Settings
    metrics: Metrics
    seeds: list[SeedRun]


def train(
    settings: Settings,
    data: Dataset | dgl.DGLGraph | list[dgl.DGLGraph] | None = None,
    *,
    data_dir: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    say: Callable[[str], Any] = lambda line: None,
) -> Result:
    r"""Trains and tests a model with each seed.

    Parameters
    ----------
    settings : Settings
        From :func:`resolve`.
    data : Dataset or DGLGraph, optional
        Data to use instead of the settings' data set. A graph has features, labels and, optionally, masks in
        ``ndata``, see :meth:`dgl_ptdnet.data.Dataset.from_graphs`.
    data_dir : str, optional
        Folder of the published data sets, see :func:`dgl_ptdnet.data.load`.
    out : str, optional
        Folder for the files of the run: ``settings.toml``, ``data.json``, ``log.jsonl``, ``state-SEED.pt``,
        ``model-SEED.pt``, ``metrics.json`` and pictures. If it holds an interrupted run of the same settings, it is
        resumed and computes the same bits; a complete run is only read. If only ``epochs`` is larger, training is
        continued. Other settings or changed data are an error.
    progress : bool, optional
        Whether to show a progress bar. Default: only on a terminal.
    say : callable
        Called with a line of text after each seed.

    Returns
    -------
    Result
        Metrics and models.

    Notes
    -----
    The seed also determines noise edges, splits of edges and generated graphs. The test split is used once for each
    seed, with the network that was best in validation.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_ptdnet.train import resolve, train
    >>> g = dgl.rand_graph(100, 500)
    >>> g.ndata["feat"], g.ndata["label"] = torch.randn(100, 8), torch.randint(3, (100,))
    >>> result = train(resolve(method="ptdnet", seeds=1, epochs=3), g)
    >>> result.metrics.method, len(result.metrics.test)
    ('ptdnet', 1)
    """
    with nullcontext() if out is None else RunFolder.open(Path(out), settings) as folder:
        return _train(settings, data, data_dir, folder, progress, say)


def _train(
    settings: Settings,
    data: Any,
    data_dir: Any,
    folder: RunFolder | None,
    progress: bool | None,
    say: Callable[[str], Any],
) -> Result:
    finished = [*folder.finished] if folder else []
    if folder and folder.complete:
        check_data(folder.path, settings.first_seed, make_data(settings, settings.first_seed, data, data_dir))
    for seed in range(settings.first_seed + len(finished), settings.first_seed + settings.seeds):
        of_seed = make_data(settings, seed, data, data_dir)
        if folder:
            check_data(folder.path, seed, of_seed, remember=True)
        trainer = Trainer(make_task(of_seed, settings, seed), settings, seed)
        _run(trainer, folder, progress)
        finished.append(folder.end_seed(trainer) if folder else trainer.finish())
        result = finished[-1].result
        say(f"seed {seed}: validation {result.val:.4f}, test {result.test:.4f}, epoch {result.best_epoch}")
    metrics = Metrics.of(settings, [run.result for run in finished])
    if folder and read_metrics(folder.path) != metrics:
        draw(folder.path, metrics.metric, finished)
        folder.write_metrics(metrics)
    return Result(settings, metrics, finished)


def make_data(settings: Settings, seed: int, data: Any = None, data_dir: Any = None) -> Dataset:
    """The data of a seed: loaded or given, with the noise edges of the settings."""
    if data is None:
        data = load(settings.dataset, data_dir, seed=seed)
    elif not isinstance(data, Dataset):
        data = Dataset.from_graphs(data, seed=seed)
    if not settings.noise_edges:
        return data
    noisy = [add_noise_edges(g, settings.noise_edges, seed=seed, kind=settings.noise_kind) for g in data.graphs]
    return Dataset(data.name, noisy, data.num_classes, data.multilabel)


def _run(trainer: Trainer, folder: RunFolder | None, progress: bool | None) -> None:
    if folder:
        folder.resume(trainer)
    show = sys.stderr.isatty() if progress is None else progress
    with tqdm(total=trainer.settings.epochs, initial=trainer.epoch, disable=not show, leave=False) as bar:
        bar.set_description(f"seed {trainer.seed}")
        while not trainer.done:
            row = trainer.run_epoch()
            best = trainer.best.val if trainer.best else row.val
            bar.set_postfix(val=f"{row.val:.3f}", best=f"{best:.3f}", refresh=False)
            bar.update()
            if folder:
                folder.epoch(trainer, row)


def load_run(
    path: str | os.PathLike[str],
    seed: int | None = None,
    data: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Trainer:
    """Loads the best network of a seed of a run, with its data.

    Parameters
    ----------
    path : str
        The folder of the run.
    seed : int, optional
        The seed. Default: the one with the best validation, or the first if the run has not finished.
    data, data_dir
        As for :func:`train`.

    Returns
    -------
    Trainer
        Its ``model``, its ``task`` with the data, ``evaluate(split)``, ``denoised()``.

    Examples
    --------
    >>> import tempfile
    >>> from dgl_ptdnet.train import load_run, resolve, train
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = train(resolve(dataset="synthetic", method="ptdnet", seeds=1, epochs=3), out=folder)
    ...     again = load_run(folder).evaluate("test").metric
    >>> again == result.metrics.test[0]
    True
    """
    folder = Path(path)
    if not (folder / "settings.toml").exists():
        raise ValueError(f"{folder} is not the folder of a run: it has no settings.toml")
    values = read_settings(folder / "settings.toml")
    if missing := [setting.name for setting in fields(Settings) if setting.name not in values]:
        raise ValueError(
            f"{folder / 'settings.toml'} has no {', '.join(missing)}: it is incomplete or from another version. "
            "Restore it from a copy, or train again into another folder"
        )
    settings = Settings(**values)
    if seed is None:
        metrics = read_metrics(folder)
        val = metrics.val if metrics else (0.0,)
        seed = settings.first_seed + val.index(max(val))
    model, remedy = folder / f"model-{seed}.pt", "Train it again into another folder"
    if not model.exists():
        there = sorted(file.stem[len("model-") :] for file in folder.glob("model-*.pt"))
        raise ValueError(f"{folder} has no model of seed {seed} (only of {', '.join(there) or 'none'}). Train it first")
    run, _ = read_model(model, remedy)
    of_seed = make_data(settings, seed, data, data_dir)
    check_data(folder, seed, of_seed)
    trainer = Trainer(make_task(of_seed, settings, seed), settings, seed)
    with naming(model, remedy):
        trainer.restore(run.best)
    return trainer

"""Runs of several seeds, in a folder that survives being killed."""

from __future__ import annotations

import os
import statistics
import sys
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Callable

from tqdm import tqdm

from .._dgl import dgl
from ..data import Dataset, add_noise_edges, load
from .folder import RunFolder, check_data, read_metrics, read_state
from .loop import Trainer
from .plots import draw
from .settings import Settings, read_settings
from .tasks import make_task


@dataclass
class Result:
    """What :func:`train` returns.

    Attributes
    ----------
    settings : Settings
        The settings.
    metrics : dict
        What ``metrics.json`` says: ``val`` and ``test`` of each seed, ``mean`` and ``std`` of the test (that of
        a sample: divided by the number of seeds less one; 0 for one seed), and more.
    seeds : list[dict]
        For each seed its ``result``, its ``history`` (a row for every epoch) and its ``best`` state.

    Examples
    --------
    >>> from dgl_ptdnet.train import resolve, train
    >>> result = train(resolve(dataset="synthetic", method="basic", seeds=2, epochs=3))
    >>> len(result.metrics["test"]), len(result.seeds[0]["history"])
    (2, 3)
    """

    settings: Settings
    metrics: dict[str, Any]
    seeds: list[dict[str, Any]]


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
        In the place of the settings' data set. A graph has features, labels and, if wanted, masks in ``ndata``, see
        :meth:`dgl_ptdnet.data.Dataset.from_graphs`.
    data_dir : str, optional
        Where the published data sets are, see :func:`dgl_ptdnet.data.load`.
    out : str, optional
        A folder for all that the run makes: ``settings.toml``, ``data.json``, ``log.jsonl``, ``checkpoint.pt``,
        ``model-SEED.pt``, ``metrics.json`` and pictures. A run that was ended goes on where it was, with the same bits;
        one that is complete is only read. A folder with other settings, or of other data, is refused.
    progress : bool, optional
        Whether to show a bar. Default: on a terminal.
    say : callable
        Is given a line for each seed that ends.

    Returns
    -------
    Result
        Metrics and models.

    Notes
    -----
    The seed counts for noise edges, splits of edges and generated graphs, too. The test is looked at once, with the
    state that was best in validation.

    Examples
    --------
    >>> import dgl, torch
    >>> from dgl_ptdnet.train import resolve, train
    >>> g = dgl.rand_graph(100, 500)
    >>> g.ndata["feat"], g.ndata["label"] = torch.randn(100, 8), torch.randint(3, (100,))
    >>> result = train(resolve(method="ptdnet", seeds=1, epochs=3), g)
    >>> sorted(result.metrics)[:4]
    ['backbone', 'best_epoch', 'dataset', 'epoch_seconds']
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
    finished = folder.finished if folder else []
    if folder and folder.metrics:
        check_data(folder.path, settings.first_seed, make_data(settings, settings.first_seed, data, data_dir))
        return Result(settings, folder.metrics, finished)
    for seed in range(settings.first_seed + len(finished), settings.first_seed + settings.seeds):
        of_seed = make_data(settings, seed, data, data_dir)
        if folder:
            check_data(folder.path, seed, of_seed, remember=True)
        trainer = Trainer(make_task(of_seed, settings, seed), settings, seed)
        _run(trainer, folder, progress)
        finished.append(trainer.finish())
        if folder:
            folder.end_seed()
        result = finished[-1]["result"]
        say(f"seed {seed}: validation {result['val']:.4f}, test {result['test']:.4f}, epoch {result['best_epoch']}")
    metrics = _metrics(settings, [seed["result"] for seed in finished])
    if folder:
        draw(folder.path, metrics["metric"], finished)
        folder.complete(metrics)
    return Result(settings, metrics, finished)


def make_data(settings: Settings, seed: int, data: Any = None, data_dir: Any = None) -> Dataset:
    """The data of a seed: loaded, or that which is given, with noise edges where they are asked for."""
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
            bar.set_postfix(val=f"{row['val']:.3f}", best=f"{trainer.best['val']:.3f}", refresh=False)
            bar.update()
            if folder:
                folder.epoch(trainer, row)


def _metrics(settings: Settings, results: list[dict[str, Any]]) -> dict[str, Any]:
    of_seeds = {name: [result[name] for result in results] for name in results[0]}
    test = of_seeds["test"]
    return {
        **{name: getattr(settings, name) for name in ("dataset", "backbone", "method", "noise_edges", "task")},
        **of_seeds,
        "metric": results[0]["metric"],
        "mean": statistics.fmean(test),
        "std": statistics.stdev(test) if len(test) > 1 else 0.0,
        "epoch_seconds": statistics.fmean(of_seeds["epoch_seconds"]),
    }


def load_run(
    path: str | os.PathLike[str],
    seed: int | None = None,
    data: Any = None,
    data_dir: str | os.PathLike[str] | None = None,
) -> Trainer:
    """The network of a run at its best state, with its data.

    Parameters
    ----------
    path : str
        The folder of the run.
    seed : int, optional
        Which of its seeds. Default: the one that is best in validation; of a run that has not ended, the first.
    data, data_dir
        As those of :func:`train`.

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
    >>> again == result.metrics["test"][0]
    True
    """
    folder = Path(path)
    if not (folder / "settings.toml").exists():
        raise ValueError(f"{folder} is not the folder of a run: it has no settings.toml")
    values = read_settings(folder / "settings.toml")
    if missing := [setting.name for setting in fields(Settings) if setting.name not in values]:
        raise ValueError(
            f"{folder / 'settings.toml'} has no {', '.join(missing)}: it is not whole, or of another version. Bring it "
            "back from a copy, or train again into another folder"
        )
    settings = Settings(**values)
    if seed is None:
        val = read_metrics(folder).get("val", [0.0])
        seed = settings.first_seed + val.index(max(val))
    model = folder / f"model-{seed}.pt"
    if not model.exists():
        there = sorted(file.stem[len("model-") :] for file in folder.glob("model-*.pt"))
        raise ValueError(
            f"{folder} has no model of seed {seed} (there is: {', '.join(there) or 'none'}). Train it first"
        )
    best = read_state(model, "Train it again into another folder", "model")
    of_seed = make_data(settings, seed, data, data_dir)
    check_data(folder, seed, of_seed)
    trainer = Trainer(make_task(of_seed, settings, seed), settings, seed)
    trainer.restore(best)
    return trainer

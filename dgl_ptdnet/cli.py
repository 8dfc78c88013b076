"""The command line: ``dgl-ptdnet``, or ``python -m dgl_ptdnet``."""

from __future__ import annotations

import argparse
import errno
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from ._dgl import dgl
from .data import available
from .data.noise import KINDS
from .studies import STUDIES, reproduce
from .train import Settings, load_run, resolve, sweep, train
from .train.settings import read_settings, update_defaults

_SAID = (ValueError, OSError, ImportError)  # these say what is wrong and what to do
_REMEDIES = {
    errno.ENOENT: "Put it there, or name another place",
    errno.ENOSPC: "Free some space and run the same command again: it goes on from its last checkpoint",
    errno.EDQUOT: "Free some space and run the same command again: it goes on from its last checkpoint",
    errno.EACCES: "Choose a place that you may read and write",
    errno.EPERM: "Choose a place that you may read and write",
    errno.EROFS: "Choose a place that you may write to",
    errno.EEXIST: "It is a file. Choose another place",
    errno.ENOTDIR: "A part of it is a file. Choose another place",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code: 0; 2 where something has to be done first, which is said in a line; 1 for
    an error that nobody thought of."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except KeyboardInterrupt:
        print("dgl-ptdnet: stopped. The same command goes on from what is on the disk", file=sys.stderr)
        return 130
    except Exception as error:
        if arguments.traceback:
            raise
        print(f"dgl-ptdnet: {_message(error)}", file=sys.stderr)
        return 2 if isinstance(error, _SAID) else 1
    return 0


def _message(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, OSError) and error.errno in _REMEDIES:
        where = f"{error.filename}: " if error.filename else ""
        text = f"{where}{error.strerror}. {_REMEDIES[error.errno]}"
    if not isinstance(error, _SAID):
        text = f"{type(error).__name__}: {text[:300]}. Add --traceback to see where it comes from"
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dgl-ptdnet", description="Graph networks that learn which edges to drop.", epilog="COMMAND --help: more"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Any, help: str, *examples: str) -> argparse.ArgumentParser:
        lines = "\n".join(f"  dgl-ptdnet {name} {example}".rstrip() for example in examples)
        made = commands.add_parser(
            name,
            help=help,
            description=help[0].upper() + help[1:] + ".",
            epilog=f"examples:\n{lines}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made.set_defaults(command=function)
        made.add_argument("--traceback", action="store_true", help="show where in the code an error comes from")
        return made

    training = command(
        "train",
        _train,
        "train with several seeds, test the best, write it all into a folder",
        "--dataset cora --backbone gcn --method ptdnet-plus --seeds 10",
        "--dataset cora --noise-edges 20000 --method basic --data-dir data --out runs/noisy",
        "--config best.toml --seeds 3",
        "--dataset mine.npz --backbone sage --method ptdnet --epochs 300",
    )
    _add_settings(training)
    training.add_argument("--out", metavar="DIR", help="the run's folder; the same command goes on with it")

    evaluating = command("evaluate", _evaluate, "test the models of a run again", "runs/noisy", "runs/noisy --seed 3")
    pruning = command(
        "prune",
        _prune,
        "write the graph without the edges that a trained model drops",
        "runs/noisy --to denoised.bin",
        "runs/noisy --to denoised.bin --threshold 0.5 --layer 1",
    )
    for made in (evaluating, pruning):
        made.add_argument("run", metavar="RUN", help="the folder of a run")
        which = "all" if made is evaluating else "the best in validation"
        made.add_argument("--seed", type=int, help=f"which of its seeds; default: {which}")
        _add_data_dir(made)
    pruning.add_argument("--to", required=True, metavar="FILE", help="for dgl.load_graphs; must not exist")
    pruning.add_argument("--threshold", type=float, default=0.0, help="edges with a gate above it stay; default: 0")
    pruning.add_argument("--layer", type=int, help="whose gates count, from 1; default: an edge stays if any keeps it")

    searching = command(
        "sweep",
        _sweep,
        "search settings by validation",
        "--dataset cora --backbone gcn --method basic --trials 16 --out sweeps/basic",
        "--dataset cora --method ptdnet --space space.toml --out sweeps/ptdnet",
    )
    _add_settings(searching)
    searching.add_argument("--out", metavar="DIR", required=True, help="the sweep's folder; the same command goes on")
    searching.add_argument("--trials", type=int, default=16, help="how many settings are tried; default: 16")
    searching.add_argument("--space", metavar="FILE", help="a TOML file with what is searched")
    searching.add_argument("--into", metavar="FILE", help="put the best into a file of defaults, as [METHOD.BACKBONE]")

    reproducing = command(
        "reproduce",
        _reproduce,
        "run the paper's experiments, as far as they have no record, and write docs/results.md",
        "--data-dir data",
        "--quick",
        "--only noise --noise-kind hubs",
        "--only classification --dataset mine.npz",
        "--search --dataset cora cora+20000 --trials 16",
        "--report",
    )
    _add_data_dir(reproducing)
    reproducing.add_argument("--only", nargs="+", metavar="STUDY", help=f"some studies: {', '.join(STUDIES)}")
    reproducing.add_argument("--dataset", nargs="+", metavar="D", help="only runs on these: cora, cora+20000, a file")
    reproducing.add_argument("--quick", action="store_true", help="a smoke version of everything, on small graphs")
    reproducing.add_argument(
        "--out", metavar="DIR", help="records; default: results; results-NAME for a file; out/quick with --quick"
    )
    reproducing.add_argument("--workers", type=int, default=0, help="processes of one thread; default: one a core")
    reproducing.add_argument("--noise-kind", default="uniform", metavar="|".join(KINDS), help="of the noise study")
    reproducing.add_argument("--report", action="store_true", help="run nothing, write the page from the records")
    reproducing.add_argument(
        "--search",
        action="store_true",
        help="search settings by validation, with the same number of trials for every method, into files of defaults",
    )
    reproducing.add_argument("--trials", type=int, default=16, help="of each search; default: 16")

    listing = command("datasets", _datasets, "list the data sets that have a name", "", "--data-dir data")
    _add_data_dir(listing)
    return parser


def _add_data_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data-dir", metavar="DIR", help="folder with DGL's raw folders, only read; else: download")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a TOML file of settings; flags count more")
    _add_data_dir(parser)
    group = parser.add_argument_group("settings", "Defaults depend on the data set, method and backbone.")
    for setting in fields(Settings):
        flag, options = f"--{setting.name.replace('_', '-')}", {"help": setting.metadata["help"], "default": None}
        if setting.type == "bool":
            group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
            continue
        options["type"] = {"str": str, "float": float}.get(str(setting.type), int)
        if setting.metadata["choices"]:
            options["metavar"] = "|".join(setting.metadata["choices"])
        if str(setting.type).startswith("tuple"):
            options["nargs"] = "+"
        group.add_argument(flag, **options)


def _settings(arguments: argparse.Namespace, **defaults: Any) -> Settings:
    given = read_settings(arguments.config) if arguments.config else {}
    flags = {setting.name: getattr(arguments, setting.name) for setting in fields(Settings)}
    return resolve({**defaults, **given, **{name: value for name, value in flags.items() if value is not None}})


def _say(line: str) -> None:
    print(line, flush=True)


def _train(arguments: argparse.Namespace) -> None:
    settings = _settings(arguments)
    noise = f"+{settings.noise_edges}" if settings.noise_edges else ""
    name = f"{Path(settings.dataset).stem}{noise}-{settings.backbone}-{settings.method}"
    out = Path(arguments.out or Path("runs") / (name if settings.task == "node" else f"{name}-link"))
    metrics = train(settings, data_dir=arguments.data_dir, out=out, say=_say).metrics
    spread = f" ± {metrics['std']:.4f}" if settings.seeds > 1 else ""
    _say(f"test {metrics['metric']} {metrics['mean']:.4f}{spread} ({settings.seeds} seeds), see {out}")


def _evaluate(arguments: argparse.Namespace) -> None:
    folder = Path(arguments.run)
    seeds = [arguments.seed]
    if arguments.seed is None:
        seeds = sorted(int(file.stem[len("model-") :]) for file in folder.glob("model-*.pt")) or [None]
    for seed in seeds:
        trainer = load_run(folder, seed, data_dir=arguments.data_dir)
        row: dict[str, Any] = {"seed": trainer.seed, "metric": trainer.task.metric}
        for split in ("val", "test"):
            scores = trainer.evaluate(split)
            row.update({split: scores.metric, f"{split}_loss": scores.loss, **scores.more})
        _say(json.dumps(row))


def _prune(arguments: argparse.Namespace) -> None:
    path = Path(arguments.to)
    if path.exists():
        raise ValueError(f"{path} is there already. Choose another name, or delete it")
    trainer = load_run(arguments.run, arguments.seed, data_dir=arguments.data_dir)
    graphs = trainer.denoised(arguments.threshold, arguments.layer)
    before = sum(part.source.num_edges() for part in trainer.task.parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    try:
        dgl.save_graphs(str(partial), graphs)
        os.replace(partial, path)
    except dgl.DGLError as error:
        reason = str(error).splitlines()[0]
        raise OSError(f"{path} cannot be written ({reason}). Is there space, and may you write there?") from error
    finally:
        partial.unlink(missing_ok=True)
    _say(f"{sum(g.num_edges() for g in graphs):,} of {before:,} edges stay, see {path}")


def _sweep(arguments: argparse.Namespace) -> None:
    settings = _settings(arguments, seeds=3)
    best = sweep(
        settings,
        arguments.out,
        trials=arguments.trials,
        data_dir=arguments.data_dir,
        space=arguments.space,
        say=_say,
    )
    if arguments.into:
        update_defaults(Path(arguments.into), settings.method, settings.backbone, best)
    _say(f"best: {', '.join(map(_equals, best.items()))}, see {arguments.out}/best.toml")


def _equals(item: tuple[str, Any]) -> str:
    name, value = item
    return f"{name} = {value:.4g}" if isinstance(value, float) else f"{name} = {value}"


def _reproduce(arguments: argparse.Namespace) -> None:
    page = reproduce(
        only=arguments.only,
        datasets=arguments.dataset,
        searching=arguments.search,
        running=not arguments.report,
        trials=arguments.trials,
        quick=arguments.quick,
        noise_kind=arguments.noise_kind,
        data_dir=arguments.data_dir,
        out=arguments.out,
        workers=arguments.workers,
        say=_say,
    )
    if page:
        _say(f"see {page}")


def _datasets(arguments: argparse.Namespace) -> None:
    rows = available(arguments.data_dir)
    _say(f"{'name':10} {'nodes':>8} {'edges':>10} {'feats':>6} {'classes':>8}  where")
    for row in rows:
        _say(f"{row.name:10} {row.nodes:8,} {row.edges:10,} {row.feats:6,} {row.classes:8}  {row.where}")

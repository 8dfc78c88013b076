"""The command line: ``dgl-ptdnet``, or ``python -m dgl_ptdnet``.

Torch, DGL and other large libraries are imported by the commands that need them, so help and errors appear at once.
"""

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

from . import __version__
from .data.names import NOISE_KINDS, DataName, available
from .errors import first_line
from .studies import STUDIES
from .train.settings import GROUPS, Settings, read_settings, resolve, update_defaults

_USER_ERRORS = (ValueError, OSError, ImportError)  # their messages say what is wrong and what to do
_REMEDIES = {
    errno.ENOENT: "Create it, or choose another path",
    errno.ENOSPC: "Free some space and run the same command again: it resumes from its last checkpoint",
    errno.EDQUOT: "Free some space and run the same command again: it resumes from its last checkpoint",
    errno.EACCES: "Choose a path that you may read and write",
    errno.EPERM: "Choose a path that you may read and write",
    errno.EROFS: "Choose a path that you may write to",
    errno.EEXIST: "It is a file. Choose another path",
    errno.ENOTDIR: "A part of it is a file. Choose another path",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Returns
    -------
    int
        The exit code. 0: success; 2: a user error, explained in one line; 1: an unexpected error; 130: interrupted.
    """
    arguments = _parser().parse_args(argv)
    try:
        arguments.command(arguments)
    except KeyboardInterrupt:
        print("dgl-ptdnet: interrupted. Run the same command again to resume", file=sys.stderr)
        return 130
    except Exception as error:
        if arguments.traceback:
            raise
        print(f"dgl-ptdnet: {_message(error)}", file=sys.stderr)
        return 2 if isinstance(error, _USER_ERRORS) else 1
    return 0


def _message(error: Exception) -> str:
    if not isinstance(error, _USER_ERRORS):
        return f"{type(error).__name__}: {first_line(error)}. Add --traceback to see where it was raised"
    if isinstance(error, OSError) and error.errno in _REMEDIES:
        where = f"{error.filename}: " if error.filename else ""
        return f"{where}{error.strerror}. {_REMEDIES[error.errno]}"
    return " ".join(str(error).split())


class _Version(argparse.Action):
    """Prints the version; with ``--version-full`` also how the extension was built, which imports torch."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        print(f"dgl-ptdnet {__version__}")
        if option == "--version-full":
            from .ops import build_info

            print(json.dumps(build_info(), indent=1, default=str))
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dgl-ptdnet",
        description="Graph neural networks that learn which edges to drop.",
        epilog="Help on a command: dgl-ptdnet COMMAND --help",
    )
    parser.add_argument("--version", nargs=0, action=_Version, help="show the version and exit")
    parser.add_argument("--version-full", nargs=0, action=_Version, help="also show how the extension was built")
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
        made.add_argument("--traceback", action="store_true", help="show the traceback of an error")
        return made

    training = command(
        "train",
        _train,
        "train and test a model with several seeds",
        "--dataset cora --backbone gcn --method ptdnet-plus --seeds 10",
        "--dataset cora --noise-edges 20000 --method basic --data-dir data --out runs/noisy",
        "--config best.toml --seeds 3",
        "--dataset mine.npz --backbone sage --method ptdnet --epochs 300",
    )
    training.add_argument(
        "--out", metavar="DIR", help="folder of the run; run the same command again to resume; default: runs/NAME"
    )
    _add_settings(training)

    evaluating = command(
        "evaluate", _evaluate, "test the trained models of a run again", "runs/noisy", "runs/noisy --seed 3"
    )
    pruning = command(
        "prune",
        _prune,
        "write the graph without the edges that a trained model drops",
        "runs/noisy --to denoised.bin",
        "runs/noisy --to denoised.bin --threshold 0.5 --layer 1",
    )
    for made in (evaluating, pruning):
        made.add_argument("run", metavar="RUN", help="folder of a run")
        which = "all" if made is evaluating else "the one with the best validation"
        made.add_argument("--seed", type=int, help=f"seed of the model; default: {which}")
        _add_data_dir(made)
    pruning.add_argument("--to", required=True, metavar="FILE", help="new file, for dgl.load_graphs")
    pruning.add_argument(
        "--threshold", type=float, default=0.0, help="keep edges with a gate above this value; default: 0"
    )
    pruning.add_argument(
        "--layer", type=int, help="layer whose gates count, from 1; default: keep an edge if any layer keeps it"
    )

    searching = command(
        "sweep",
        _sweep,
        "search settings by validation",
        "--dataset cora --backbone gcn --method basic --trials 16 --out sweeps/basic",
        "--dataset cora --method ptdnet --space space.toml --out sweeps/ptdnet",
    )
    searching.add_argument(
        "--out", metavar="DIR", required=True, help="folder of the search; run the same command again to resume"
    )
    searching.add_argument("--trials", type=int, default=16, help="number of trials; default: 16")
    searching.add_argument("--space", metavar="FILE", help="TOML file that says what is searched; default: built in")
    searching.add_argument(
        "--into", metavar="FILE", help="file of defaults that gets the best settings, as [METHOD.BACKBONE]"
    )
    _add_settings(searching, seeds=3)

    reproducing = command(
        "reproduce",
        _reproduce,
        "run the paper's experiments that have no records yet, and write docs/results.md",
        "--data-dir data",
        "--quick",
        "--only noise --noise-kind hubs",
        "--only classification --dataset mine.npz",
        "--search --dataset cora cora+20000 --trials 16",
        "--report",
    )
    _add_data_dir(reproducing)
    reproducing.add_argument("--only", nargs="+", metavar="STUDY", help=f"studies to run: {', '.join(STUDIES)}")
    reproducing.add_argument(
        "--dataset", nargs="+", metavar="D", help="run only jobs on these data sets: cora, cora+20000, a file"
    )
    reproducing.add_argument("--quick", action="store_true", help="a quick check of everything, on small graphs")
    reproducing.add_argument(
        "--out",
        metavar="DIR",
        help="folder of records; default: results; results-NAME for a file; out/quick for --quick",
    )
    reproducing.add_argument(
        "--workers", type=int, default=0, help="number of processes, of one thread each; default: one for each core"
    )
    reproducing.add_argument(
        "--noise-kind",
        default="uniform",
        metavar="|".join(NOISE_KINDS),
        help="kind of noise in the noise study; default: uniform",
    )
    reproducing.add_argument("--report", action="store_true", help="only write the page from the records")
    reproducing.add_argument(
        "--search",
        action="store_true",
        help="search settings by validation, with equal numbers of trials for all methods, and write them as defaults",
    )
    reproducing.add_argument("--trials", type=int, default=16, help="number of trials of each search; default: 16")

    listing = command("datasets", _datasets, "list the data sets that have a name", "", "--data-dir data")
    _add_data_dir(listing)
    return parser


def _add_data_dir(parser: Any) -> None:
    parser.add_argument(
        "--data-dir", metavar="DIR", help="folder with DGL's raw data folders, which is only read; default: download"
    )


def _add_settings(parser: argparse.ArgumentParser, **defaults: Any) -> None:
    parser.add_argument("--config", metavar="FILE", help="TOML file of settings; flags override it")
    _add_data_dir(parser)
    groups = {name: parser.add_argument_group(name) for name in GROUPS}
    parser.usage = f"{parser.prog} [options]"  # there are too many to list twice
    parser.epilog = (
        "Defaults are those of the program; the files in dgl_ptdnet/defaults have others for some data sets, methods\n"
        f"and backbones.\n\n{parser.epilog}"
    )
    for setting in fields(Settings):
        flag, default = f"--{setting.name.replace('_', '-')}", defaults.get(setting.name, setting.default)
        shown = {"True": "on", "False": "off", "()": "10 for each layer"}.get(str(default), default)
        options: dict[str, Any] = {"help": f"{setting.metadata['help']}; default: {shown}", "default": None}
        group = groups[setting.metadata["group"]]
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
    from .train import train
    from .train.memory import keep_freed_memory

    keep_freed_memory()
    data = DataName(Path(settings.dataset).stem, settings.noise_edges, settings.task)
    out = Path(arguments.out or Path("runs") / f"{data}-{settings.backbone}-{settings.method}")
    metrics = train(settings, data_dir=arguments.data_dir, out=out, say=_say).metrics
    spread = f" ± {metrics.std:.4f}" if settings.seeds > 1 else ""
    _say(f"test {metrics.metric} {metrics.mean:.4f}{spread} ({settings.seeds} seeds), see {out}")


def _evaluate(arguments: argparse.Namespace) -> None:
    from .train import load_run

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
        raise ValueError(f"{path} exists. Choose another name, or delete it")
    from ._dgl import dgl
    from .train import load_run

    trainer = load_run(arguments.run, arguments.seed, data_dir=arguments.data_dir)
    graphs = trainer.denoised(arguments.threshold, arguments.layer)
    before = sum(part.source.num_edges() for part in trainer.task.parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.part")
    try:
        dgl.save_graphs(str(partial), graphs)
        os.replace(partial, path)
    except dgl.DGLError as error:
        reason = first_line(error)
        raise OSError(f"{path} cannot be written ({reason}). Is there space, and may you write there?") from error
    finally:
        partial.unlink(missing_ok=True)
    _say(f"{sum(g.num_edges() for g in graphs):,} of {before:,} edges kept, see {path}")


def _sweep(arguments: argparse.Namespace) -> None:
    settings = _settings(arguments, seeds=3)
    from .train import sweep
    from .train.memory import keep_freed_memory

    keep_freed_memory()
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
    from .studies import reproduce

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
    _say(f"{'name':10} {'nodes':>8} {'edges':>10} {'feats':>6} {'classes':>8}  where")
    for row in available(arguments.data_dir):
        _say(f"{row.name:10} {row.nodes:8,} {row.edges:10,} {row.feats:6,} {row.classes:8}  {row.where}")

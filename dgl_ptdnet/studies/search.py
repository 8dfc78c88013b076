"""The search for settings: the same number of trials for every method, chosen by validation alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Callable
from zlib import crc32

from ..train import Settings, resolve
from ..train.settings import DEFAULTS, METHODS, read_toml, update_defaults
from ..train.sweep import import_optuna, search_space, suggest
from ..train.write import write_whole
from .jobs import Plan
from .queue import Records, run
from .rows import BACKBONES

SEARCHED = (
    *("cora", "cora+20000", "citeseer", "pubmed", "ppi", "synthetic"),
    *("cora-link", "citeseer-link", "pubmed-link"),
)
FINALISTS = 4  # one trial in so many is run with more seeds
SEEDS = 3


def cells_of(name: str) -> list[dict[str, Any]]:
    """The settings that are searched for a data set: its backbones with every method. On PPI one search a backbone,
    with Basic, serves all methods."""
    if name not in SEARCHED:
        raise ValueError(f"there is no search for {name!r}; there are {', '.join(SEARCHED)}. See `dgl-ptdnet sweep`")
    dataset, _, noise = name.removesuffix("-link").partition("+")
    cell: dict[str, Any] = {"dataset": dataset, "noise_edges": int(noise or 0)}
    if name.endswith("-link"):
        cell["task"] = "link"
    small = dataset == "synthetic" or name.endswith("-link")
    methods = ("basic",) if name == "ppi" else METHODS
    return [
        {**cell, "backbone": backbone, "method": method}
        for backbone in (("gcn",) if small else BACKBONES if name == "ppi" else (*BACKBONES, "gin"))
        for method in methods
        if method != "mlp" or (backbone == "gcn" and "task" not in cell)
    ]


def trials_of(settings: Settings, space: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """What is tried: the settings themselves, then random draws. A trial's number gives what methods have in common the
    same values for all of them: so no method wins by luckier ones."""
    optuna = import_optuna()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    drawn = [{name: getattr(settings, name) for name in space}, *({} for _ in range(number - 1))]
    for name, what in space.items():
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=crc32(name.encode())))
        for trial in drawn[1:]:
            value = suggest(study.ask(), name, what)
            trial[name] = float(f"{value:.3g}") if isinstance(value, float) else value
    return drawn


def search(
    names: list[str],
    records: Records,
    plan: Plan,
    *,
    trials: int = 16,
    data_dir: Any = None,
    workers: int = 0,
    say: Callable[[str], Any] = lambda line: None,
) -> None:
    """Searches the settings of data sets, one after the other, and writes what is best into their files of defaults.

    Every trial is a run of one seed; the best quarter of them is run with two seeds more, and the best of these by the
    mean over seeds of the validation metric, then of the validation loss, is taken. ``search.jsonl`` says what was
    tried. What has a table in its file of defaults is not searched again.

    Parameters
    ----------
    names : list[str]
        Of :data:`SEARCHED`.
    records : Records
        Where the runs' records go.
    plan : Plan
        Everything or a smoke version; that writes its defaults into the folder of records.
    trials : int
        How many settings are tried for each backbone and method.
    data_dir, workers
        As those of :func:`dgl_ptdnet.studies.queue.run`.
    say : callable
        Is given a line for each data set.
    """
    folder = records.folder / "defaults" if plan.quick else DEFAULTS
    folder.mkdir(exist_ok=True)
    for name in names:
        path, own = folder / f"{name}.toml", DEFAULTS / f"space-{name}.toml"
        tables = read_toml(path) if path.exists() else {}
        cells = [c for c in cells_of(name) if c["backbone"] not in tables.get(c["method"], {})]
        started = [_Cell(cell, own if own.exists() else None, trials, plan) for cell in cells]
        first = [job for cell in started for job in cell.jobs(range(len(cell.trials)), [0])]
        run(first, records, data_dir=data_dir, workers=workers, name=f"search {name}, 1 of 2")
        more = [job for cell in started for job in cell.jobs(cell.finalists(records), range(1, SEEDS))]
        run(more, records, data_dir=data_dir, workers=workers, name=f"search {name}, 2 of 2")
        for cell in started:
            best = cell.trials[cell.best(records)]
            _remember(records.folder / "search.jsonl", cell.record(records))
            if not path.exists():
                write_whole(path, f"# Found by `dgl-ptdnet reproduce --search --dataset {name} --trials {trials}`.\n")
            methods = METHODS if name == "ppi" else [cell.cell["method"]]
            for method in sorted(methods, key=lambda method: method == "basic"):  # last what says that all is done
                update_defaults(path, method, cell.cell["backbone"], best)
        say(
            f"{name}: {len(cells)} searches of {trials} trials, see {path}"
            if cells
            else f"{name}: is in {path} already"
        )


class _Cell:
    """The search for one data set, backbone and method."""

    def __init__(self, cell: dict[str, Any], space: Path | None, trials: int, plan: Plan) -> None:
        self.cell, self.plan, self.settings = cell, plan, resolve(cell, seeds=1)
        self.trials = trials_of(self.settings, search_space(self.settings, space), trials)

    def jobs(self, numbers: Any, seeds: Any) -> list[dict[str, Any]]:
        runs = [replace(self.settings, **self.trials[n], first_seed=seed) for n in numbers for seed in seeds]
        return [self.plan.job_of(settings) for settings in runs]

    def _order(self, numbers: Any, seeds: int, records: Records) -> list[int]:
        """Trials, from the best on: by validation over some seeds."""

        def score(number: int) -> tuple[float, float]:
            found = records.of(self.jobs([number], range(seeds)))
            return fmean(r["val"] for r in found), -fmean(r["val_loss"] for r in found)

        return sorted(numbers, key=score, reverse=True)

    def finalists(self, records: Records) -> list[int]:
        """The trials that are best with the first seed."""
        return self._order(range(len(self.trials)), 1, records)[: max(1, len(self.trials) // FINALISTS)]

    def best(self, records: Records) -> int:
        """The finalist that is best with all seeds."""
        return self._order(self.finalists(records), SEEDS, records)[0]

    def record(self, records: Records) -> dict[str, Any]:
        rows, finalists = [], self.finalists(records)
        for number, values in enumerate(self.trials):
            found = records.of(self.jobs([number], range(SEEDS if number in finalists else 1)))
            rows.append({**values, "val": [r["val"] for r in found], "val_loss": [r["val_loss"] for r in found]})
        return {"cell": self.cell, "chosen": self.best(records), "trials": rows}


def _remember(path: Path, record: dict[str, Any]) -> None:
    """Puts a cell's record in the place of an older one."""
    lines = path.read_text().splitlines() if path.exists() else []
    others = [line for line in lines if json.loads(line)["cell"] != record["cell"]]
    write_whole(path, "".join(f"{line}\n" for line in [*others, json.dumps(record)]))

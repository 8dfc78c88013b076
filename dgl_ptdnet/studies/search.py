"""Searches settings for every data set, backbone and method, with the same number of trials for every method."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.names import DataName
from ..train import resolve
from ..train.atomic import write_atomic
from ..train.results import JsonRecord, Numbers
from ..train.search import Run, Score, Search, read_space, trials_of
from ..train.settings import DEFAULTS, METHODS, read_toml, update_defaults
from .jobs import Job, Plan
from .methods import BACKBONES
from .queue import run
from .records import Records

SEARCHED = (
    *("cora", "cora+20000", "citeseer", "pubmed", "ppi", "synthetic"),
    *("cora-link", "citeseer-link", "pubmed-link"),
)
SEEDS = 3


@dataclass(frozen=True)
class Cell(JsonRecord):
    """What is searched at a time: settings for a data set, backbone and method."""

    dataset: str
    backbone: str
    method: str
    noise_edges: int = 0
    task: str = "node"

    @property
    def name(self) -> str:
        """The name of its data, and of its file of defaults."""
        return str(DataName(self.dataset, self.noise_edges, self.task))


@dataclass(frozen=True)
class Trial(JsonRecord):
    """The values of a trial, and the validation metric and loss of each of its runs."""

    values: dict[str, Any]
    val: Numbers
    val_loss: Numbers


@dataclass(frozen=True)
class SearchRecord:
    """A line of ``search.jsonl``: a cell, all its trials, and the number of the best."""

    cell: Cell
    chosen: int
    trials: tuple[Trial, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "cell": self.cell.to_json(),
            "chosen": self.chosen,
            "trials": [trial.to_json() for trial in self.trials],
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> SearchRecord:
        trials = tuple(Trial.from_json(trial) for trial in found["trials"])
        return cls(Cell.from_json(found["cell"]), found["chosen"], trials)


def read_searches(folder: Path) -> list[SearchRecord]:
    """The searches that are recorded in a folder."""
    path = folder / "search.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [SearchRecord.from_json(json.loads(line)) for line in lines]


def cells_of(name: str) -> list[Cell]:
    """The cells of a data set: its backbones with every method. On PPI, Basic's settings serve all methods."""
    if name not in SEARCHED:
        raise ValueError(f"there is no search for {name!r}; there are {', '.join(SEARCHED)}. See `dgl-ptdnet sweep`")
    data = DataName.parse(name)
    small = data.dataset == "synthetic" or data.task == "link"
    methods = ("basic",) if name == "ppi" else METHODS
    return [
        Cell(data.dataset, backbone, method, data.noise_edges, data.task)
        for backbone in (("gcn",) if small else BACKBONES if name == "ppi" else (*BACKBONES, "gin"))
        for method in methods
        if method != "mlp" or (backbone == "gcn" and data.task == "node")
    ]


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
    """Searches settings for data sets as :class:`dgl_ptdnet.train.search.Search` does, with 3 seeds, and writes the
    best into their files of defaults.

    ``search.jsonl`` in the folder of records gets all trials. Cells that have a table in their file of defaults are
    skipped.

    Parameters
    ----------
    names : list[str]
        Some of :data:`SEARCHED`.
    records : Records
        What has finished; it gets the figures of the runs.
    plan : Plan
        With ``quick``, files of defaults are written into the folder of records.
    trials : int
        Number of trials for each cell. Default: 16.
    data_dir, workers
        As for :func:`dgl_ptdnet.studies.queue.run`. Default: None and 0.
    say : callable
        Called with a line of text after each data set.
    """
    folder = records.folder / "defaults" if plan.quick else DEFAULTS
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path, own = folder / f"{name}.toml", DEFAULTS / f"space-{name}.toml"
        tables = read_toml(path) if path.exists() else {}
        cells = [cell for cell in cells_of(name) if cell.backbone not in tables.get(cell.method, {})]
        started = [_CellSearch(cell, own if own.exists() else None, trials, plan, records) for cell in cells]
        for place, runs_of in enumerate((_CellSearch.first_jobs, _CellSearch.more_jobs), 1):
            jobs = [job for cell in started for job in runs_of(cell)]
            run(jobs, records, data_dir=data_dir, workers=workers, name=f"search {name}, {place} of 2")
        for cell_search in started:
            found = cell_search.record()
            _write(records.folder / "search.jsonl", found)
            if not path.exists():
                write_atomic(path, f"# Found by `dgl-ptdnet reproduce --search --dataset {name} --trials {trials}`.\n")
            methods = METHODS if name == "ppi" else [found.cell.method]
            for method in sorted(methods, key=lambda method: method == "basic"):  # Basic marks a finished cell of PPI
                update_defaults(path, method, found.cell.backbone, found.trials[found.chosen].values)
        done = f"{len(cells)} searches of {trials} trials, see {path}" if cells else f"already searched, see {path}"
        say(f"{name}: {done}")


class _CellSearch:
    """The search of a cell, whose scores come from records."""

    def __init__(self, cell: Cell, space: Path | None, trials: int, plan: Plan, records: Records) -> None:
        self.cell, self.plan, self.records = cell, plan, records
        settings = resolve(cell.to_json(), seeds=1)
        values = trials_of(settings, read_space(settings, space), trials)
        self.search = Search(settings, values, range(SEEDS))

    def _job(self, run: Run) -> Job:
        return self.plan.job_of(self.search.settings_of(run))

    def _scores(self) -> dict[Run, Score]:
        runs = [(trial, seed) for trial in range(len(self.search.trials)) for seed in self.search.seeds]
        found = {run: self.records.get(self._job(run)) for run in runs}
        return {run: Score.of(figures) for run, figures in found.items() if figures is not None}

    def first_jobs(self) -> list[Job]:
        return [self._job(run) for run in self.search.first_runs()]

    def more_jobs(self) -> list[Job]:
        return [self._job(run) for run in self.search.more_runs(self._scores())]

    def record(self) -> SearchRecord:
        scores, trials = self._scores(), []
        finalists = self.search.finalists(scores)
        for number, values in enumerate(self.search.trials):
            seeds = self.search.seeds if number in finalists else self.search.seeds[:1]
            found = [scores[number, seed] for seed in seeds]
            trials.append(Trial(values, tuple(x.val for x in found), tuple(x.val_loss for x in found)))
        return SearchRecord(self.cell, self.search.best(scores), tuple(trials))


def _write(path: Path, record: SearchRecord) -> None:
    """Writes a record in place of an older one of the same cell."""
    others = [other for other in read_searches(path.parent) if other.cell != record.cell]
    write_atomic(path, "".join(json.dumps(x.to_json()) + "\n" for x in [*others, record]))

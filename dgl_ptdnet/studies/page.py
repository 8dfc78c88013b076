"""Runs the studies, and writes a page about what they found."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from ..train.atomic import locked, write_atomic
from . import STUDIES
from .jobs import Plan
from .queue import run
from .records import Records
from .search import SEARCHED, SearchRecord, cells_of, read_searches, search
from .tables import markdown

_TOP = """# Does learned edge dropping work, and when

Written by `dgl-ptdnet reproduce` from its records.

Test figures are means over seeds, each at the epoch with the best validation; the spread is the standard deviation over
seeds; p is from a paired t-test against Basic over seeds, not corrected for the number of cells. With a public split
all seeds share one test set: there p is about initial weights, not about other data.

| word | meaning |
| --- | --- |
| Basic | the backbone on all edges, without gates |
| PTDNet | the paper's method: gates, L0 term, low-rank term; PTDNet-wl is without the low-rank term |
| ptdnet-plus | PTDNet's gates with three additions: density prior, agreement, consistency of several gate samples |
| control | Basic with one part of a method, but without gates: its gain is not due to gates |
| gate | a number in [0, 1] by which an edge's message is multiplied |
| gate sample | gates that are drawn once with random noise, in training |
| kept | an edge with a gate above 0 |
| shut | a layer that keeps less than 1 % of its edges |
| uniform, heterophilous | noise edges between any two nodes; between nodes with different labels |
| similar, hubs | noise edges between nodes with similar features; mostly at nodes of high degree |
| – | not run, or not known |

A run gives equal digits on processors of one kind; on others the last digits of torch's matrix products differ. Records
that are not on this page are from searches, or of settings before a later search.
"""
_QUICK = """
**This is a quick check: every graph is a small generated one, and the figures mean nothing.**
"""


def study(name: str) -> Any:
    """The module of a study."""
    return import_module(f".{STUDIES[name]}", __package__)


def reproduce(
    *,
    only: list[str] | None = None,
    datasets: list[str] | None = None,
    searching: bool = False,
    running: bool = True,
    trials: int = 16,
    quick: bool = False,
    noise_kind: str = "uniform",
    data_dir: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    workers: int = 0,
    say: Callable[[str], Any] = lambda line: None,
) -> Path | None:
    """Runs the jobs that have no record yet, then writes the page.

    Parameters
    ----------
    only : list[str], optional
        Names of studies. Default: all.
    datasets : list[str], optional
        Run only jobs on these: ``"cora"``, ``"cora+20000"``, ``"cora-link"``, ... A path of a file adds it to the
        classification study.
    searching : bool
        Search settings instead of running studies. Default: False.
    running : bool
        False: only write the page. Default: True.
    trials : int
        Number of trials of a search. Default: 16.
    quick : bool
        A quick check of everything, on small graphs. Default: False.
    noise_kind : str
        The kind of noise in the noise study. Default: ``"uniform"``.
    data_dir : str, optional
        Folder of the published data sets.
    out : str, optional
        The folder of records. Default: ``results``, whose page is ``docs/results.md``; for files ``results-NAME``, for
        the quick check ``out/quick``.
    workers : int
        Number of processes. Default: 0, one for each core.
    say : callable
        Called with lines of text about the progress.

    Returns
    -------
    Path or None
        The page, if one was written.
    """
    for name in only or []:
        if name not in STUDIES:
            raise ValueError(f"there is no study {name!r}; there are {', '.join(STUDIES)}")
    files = tuple(name for name in datasets or [] if name.endswith((".npz", ".bin")) or os.sep in name)
    own = f"results-{Path(files[0]).stem}" if files else "results"
    folder = Path(out or ("out/quick" if quick else own))
    plan, records = Plan(quick, noise_kind, files), Records(folder)
    if searching:
        names = datasets or list(SEARCHED)
        for name in names:
            cells_of(name)  # report a wrong name before hours of work
        with locked(folder):
            search(names, records, plan, trials=trials, data_dir=data_dir, workers=workers, say=say)
        return None
    if running:
        jobs = [job for name in only or STUDIES for job in study(name).jobs(plan)]
        there = {job.name for job in jobs}
        if unknown := [name for name in datasets or [] if name not in there]:
            raise ValueError(f"no run uses {', '.join(unknown)}; there are {', '.join(sorted(there))}")
        jobs = [job for job in jobs if not datasets or job.name in datasets]
        if all(map(records.get, jobs)):
            say(f"all {len(jobs):,} runs have finished before")
        else:
            with locked(folder):
                run(jobs, records, data_dir=data_dir, workers=workers)
    page = Path("docs/results.md") if folder == Path("results") else folder / "results.md"
    write_page(page, plan, records)
    return page


def page_text(plan: Plan, records: Records, history: str = "") -> str:
    """The text of the page, from records alone. ``history``: a link to a document about earlier searches."""
    parts = [_TOP, _QUICK if plan.quick else "", _searches(read_searches(records.folder), history)]
    for name in STUDIES:
        if plan.files and name != "classification":
            continue
        text = study(name).text(plan, records) if _began(name, plan, records) else "Not run yet.\n"
        parts.append(f"\n## {study(name).TITLE}\n\n`dgl-ptdnet reproduce --only {name}`\n\n{text}")
    return "".join(parts)


def _searches(found: list[SearchRecord], history: str) -> str:
    """How many trials the searches had."""
    if not found:
        return ""
    rows = []
    for name in dict.fromkeys(record.cell.name for record in found):
        cells = {}
        for record in found:
            if record.cell.name == name:
                trials, seeds = len(record.trials), max(len(trial.val) for trial in record.trials)
                cells[f"{record.cell.method} with {record.cell.backbone}"] = f"{trials} ({seeds})"
        (usual, _), *_ = Counter(cells.values()).most_common(1)
        rows.append([name, usual, ", ".join(f"{cell}: {of}" for cell, of in cells.items() if of != usual)])
    earlier = f" Earlier searches and other choices: [{history}]({history})." if history else ""
    return (
        "\nSettings were searched by validation. The table has the number of trials for each method and backbone, "
        "and in brackets the number of seeds for the best quarter of the trials; the other trials had one seed. "
        f"Other data and depths use the nearest settings found, controls those of Basic.{earlier}\n\n"
        + markdown(["", "trials (seeds)", "exceptions"], rows)
    )


def _began(name: str, plan: Plan, records: Records) -> bool:
    """Whether a study has at least a tenth of its records: a few may come from other studies."""
    jobs = study(name).jobs(plan)
    return 10 * len(records.of(jobs)) >= len(jobs)


def write_page(page: Path, plan: Plan, records: Records) -> None:
    """Writes the page, and its pictures into the folder of the same name."""
    folder, history = page.with_suffix(""), page.parent / "search_history.md"
    folder.mkdir(parents=True, exist_ok=True)
    for name in STUDIES:
        if hasattr(study(name), "draw") and _began(name, plan, records):
            study(name).draw(plan, records, folder)
    write_atomic(page, page_text(plan, records, history.name if history.exists() else ""))

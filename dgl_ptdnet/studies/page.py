"""All studies: running them, and the page that says what came out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

from ..train.write import locked, write_whole
from . import classification, denoising, depth, good_bad_edges, links, noise, rank, regularizers, statistics
from .jobs import Plan, name_of
from .queue import Records, run
from .search import SEARCHED, cells_of, search

STUDIES: dict[str, Any] = {
    "statistics": statistics,
    "good-bad-edges": good_bad_edges,
    "classification": classification,
    "noise": noise,
    "denoising": denoising,
    "regularizers": regularizers,
    "rank": rank,
    "depth": depth,
    "links": links,
}

_TOP = """# Does learned edge dropping work, and when

Written by `dgl-ptdnet reproduce` from its records; not by hand.

Test figures are means over seeds, each at the epoch that was best in validation; spread is the standard deviation over
seeds; p is that of a paired t-test against Basic over seeds, not corrected for the number of cells. With a public split
all seeds share one test set: there p says that a difference is not one of initialisation, not that it holds on other
data. "–": not run, or not known.

Where `search.jsonl` among the records has a cell, its settings were searched on validation, with the same number of
trials for every method of a data set: 12 on Cora, Cora + 20,000, Citeseer and the synthetic graph, 8 on Pubmed and
for links on Cora and Citeseer, 4 for links on Pubmed; but 16 for Basic with GCN and GAT on Pubmed, with ten seeds of
each finalist for GAT. ptdnet-plus was searched once more after consistency had become a part of it, and with GAT on
Cora and Citeseer a third time, together with the number of draws and the weight and warm-up of consistency (on
Citeseer one trial more: the settings found before, with these). Cora + 20,000 was searched with draws of each method's
own, but for ptdnet-plus; all others with draws that methods share.
Elsewhere settings are those of the nearest: other numbers and kinds of noise edges take the nearer searched one; depth,
rank and regularizers start from the synthetic graph's, communities from what every data set starts from; PPI was
searched with Basic alone, by 8 trials a backbone, and its gates' settings were set by hand; parts of ptdnet-plus and
controls have those of the method that they are made of, not their own, so they may be too low. ptdnet-plus has three
parts: the density prior, agreement, and several draws of the gates a step whose probabilities are drawn to their
sharpened mean (consistency). The first two were designed on Cora, Citeseer and Pubmed, looking at their test sets: on
these its gain is likely too high. The third was added, and made stronger for GAT, for what it gives in validation on
Cora and Citeseer, but by people who had seen tests of what there was before and of variants that were tried.

A run repeats to the digit on the same kind of processor; torch's matrix products have other last digits on others.
Records that no study asks for are those of searches, and of settings before a later search.
"""
_QUICK = """
**This is a smoke version: every graph is a small generated one, and no figure here means anything.**
"""


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
    """Runs what has no record yet, then writes the page.

    Parameters
    ----------
    only : list[str], optional
        Names of studies. Default: all of them.
    datasets : list[str], optional
        Only runs on these: ``"cora"``, ``"cora+20000"``, ``"cora-link"``, ... or the path of a file, which the
        classification study then takes as well.
    searching : bool
        Search settings in the place of running studies.
    running : bool
        False: only write the page.
    trials : int
        Of a search.
    quick : bool
        A smoke version of everything.
    noise_kind : str
        That of the noise study's runs.
    data_dir : str, optional
        Where the published data sets are.
    out : str, optional
        The folder of records. Default: ``results``, whose page is ``docs/results.md``; for files ``results-NAME``, for
        the smoke version ``out/quick``.
    workers : int
        Number of processes. 0: one for each core.
    say : callable
        Is given a line now and then.

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
            cells_of(name)  # a wrong name is said before hours of work
        with locked(folder):
            search(names, records, plan, trials=trials, data_dir=data_dir, workers=workers, say=say)
        return None
    if running:
        jobs = [job for name in only or STUDIES for job in STUDIES[name].jobs(plan)]
        there = {name_of(job) for job in jobs}
        if unknown := [name for name in datasets or [] if name not in there]:
            raise ValueError(f"no run is on {', '.join(unknown)}; there are {', '.join(sorted(there))}")
        jobs = [job for job in jobs if not datasets or name_of(job) in datasets]
        if all(map(records.get, jobs)):
            say(f"all {len(jobs):,} runs have their records already")
        else:
            with locked(folder):
                run(jobs, records, data_dir=data_dir, workers=workers)
    page = Path("docs/results.md") if folder == Path("results") else folder / "results.md"
    write_page(page, plan, records)
    return page


def page_text(plan: Plan, records: Records) -> str:
    """The page, from records alone."""
    parts = [_TOP, _QUICK if plan.quick else ""]
    for name, study in STUDIES.items():
        if plan.files and study is not classification:
            continue
        text = study.text(plan, records) if _began(study, plan, records) else "Not run yet.\n"
        parts.append(f"\n## {study.TITLE}\n\n`dgl-ptdnet reproduce --only {name}`\n\n{text}")
    return "".join(parts)


def _began(study: Any, plan: Plan, records: Records) -> bool:
    """Whether a study has a tenth of its records: others lend it some before it has run."""
    jobs = study.jobs(plan)
    return 10 * len(records.of(jobs)) >= len(jobs)


def write_page(page: Path, plan: Plan, records: Records) -> None:
    """Writes the page, and the pictures into the folder of its name."""
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for study in STUDIES.values():
        if hasattr(study, "draw") and _began(study, plan, records):
            study.draw(plan, records, folder)
    write_whole(page, page_text(plan, records))

"""Tables of finished runs: means, spreads and paired tests."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from .claims import why
from .jobs import Plan
from .methods import BACKBONES, jobs_of, one_label, rows_of
from .records import Records
from .runs import NONE, Runs, number, paired_p, probability

NAMES = {"gcn": "GCN", "sage": "GraphSage", "gat": "GAT"}


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table: a column of text, then columns of numbers."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


Published = dict[str, dict[str, float]]  # by backbone and row


def method_table(
    plan: Plan, records: Records, given: dict[str, Any], seeds: int, paper: Published, authors: Published
) -> str:
    """A table of every row with every backbone on a data set, next to figures of the paper and of the authors' code.
    If labels are marked as exact, another column has the test over all labels."""
    rows, everywhere = [], []
    for backbone in BACKBONES:
        basic = runs_of(plan, records, "Basic", seeds, {**given, "backbone": backbone})
        for row in rows_of(given["dataset"]):
            runs = runs_of(plan, records, row, seeds, {**given, "backbone": backbone})
            line = [f"{NAMES[backbone]}: {row}", NONE, NONE, str(len(runs)), NONE, NONE, NONE]
            if len(runs):
                line = [line[0], number(runs.mean), number(runs.spread), line[3], number(runs.val), NONE, NONE]
            if len(runs) and len(basic) and row != "Basic":
                line[5:] = [f"{runs.mean - basic.mean:+.3f}", probability(paired_p(runs, basic))]
            line += [number(figures.get(backbone, {}).get(row)) for figures in (paper, authors)]
            rows.append(line)
            found = [figures.test_all for figures in runs.figures if figures.test_all is not None]
            everywhere.append(number(fmean(found)) if found else NONE)
    head = ["", "test", "spread", "seeds", "validation", "to Basic", "p", "paper", "authors' code"]
    if set(everywhere) != {NONE}:
        head, rows = [*head, "test, all labels"], [[*line, of] for line, of in zip(rows, everywhere)]
    return markdown(head, rows)


def gate_table(plan: Plan, records: Records, given: dict[str, Any], seeds: int) -> str:
    """A table of what gates do: the share of edges that each layer keeps, and the mean gates of the first layer over
    edges between equal and between different labels. If these means are equal, gates do not denoise."""
    names = ("gate_same", "gate_other") if one_label(given["dataset"]) else ()
    rows: list[list[str]] = []
    found: dict[str, dict[str, Runs]] = {}
    for backbone in BACKBONES:
        for row in ("PTDNet-wl", "PTDNet", "ptdnet-plus"):
            runs = runs_of(plan, records, row, seeds, {**given, "backbone": backbone})
            line = [NONE] * (1 + len(names))
            if len(runs):
                kept = " / ".join(number(fmean(of)) for of in zip(*(figures.edges_kept for figures in runs.figures)))
                line = [kept, *(number(fmean(getattr(figures, name)[0] for figures in runs.figures)) for name in names)]
            rows.append([f"{NAMES[backbone]}: {row}", *line])
            found.setdefault(row, {})[f"with {NAMES[backbone]}"] = runs
    head = ["at the best epoch", "edges kept, by layer", "mean gate, first layer: same label", "different labels"]
    said = "".join(why(row, found[row]) for row in ("PTDNet", "ptdnet-plus"))
    return "\n" + markdown(head[: 2 + len(names)], rows) + said


def runs_of(plan: Plan, records: Records, row: str, seeds: int, given: dict[str, Any]) -> Runs:
    """The runs of a row."""
    return Runs(records, jobs_of(plan, row, seeds, **given))


def better(one: Runs, other: Runs) -> Runs:
    """The one with the better validation; if only one of them has finished runs, that one."""
    return max((runs for runs in (one, other) if len(runs)), key=lambda runs: runs.val, default=one)

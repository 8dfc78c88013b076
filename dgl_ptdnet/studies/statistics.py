"""Tables 1 and 2: the data sets, and their edges between equal and different labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..data.undirected import ends_of_pairs, linked_pairs
from ..train import Settings
from ..train.results import JsonRecord
from .claims import claim
from .jobs import Job, Plan, data_of
from .records import Records
from .runs import NONE
from .tables import markdown

TITLE = "Data sets (tables 1 and 2)"
DATASETS = ("cora", "citeseer", "pubmed", "ppi", "synthetic")
COLUMNS = ("nodes", "pairs", "feats", "classes", "train", "val", "test", "same", "other")
PAPER = {
    "cora": (2708, 5429, 1433, 7, 140, 500, 1000, 4418, 1011),
    "citeseer": (3327, 4732, 3703, 6, 120, 500, 1000, None, None),
    "pubmed": (19717, 44338, 500, 3, 100, 500, 1000, None, None),
    "ppi": (56944, 818716, 50, 121, 44906, 6514, 5524, None, None),
    "synthetic": (1018, 4945, 30, 5, None, None, None, None, None),
}


@dataclass(frozen=True)
class Counts(JsonRecord):
    """Sizes of a data set; ``same`` and ``other``: linked pairs of nodes with equal and with different labels."""

    nodes: int
    pairs: int
    feats: int
    classes: int
    train: int
    val: int
    test: int
    same: int | None = None
    other: int | None = None


FIGURES = {"": Counts}


def _job(plan: Plan, dataset: str) -> Job:
    return replace(plan.job_of(Settings(dataset=dataset, method="basic", seeds=1)), measure="statistics")


def jobs(plan: Plan) -> list[Job]:
    return [_job(plan, dataset) for dataset in DATASETS]


def measure(job: Job, data_dir: Any) -> Counts:
    """Counts nodes and linked pairs. A pair counts once, whatever the number of its edges; self-loops do not count."""
    data = data_of(job, data_dir)
    found: dict[str, Any] = {"nodes": 0, "pairs": 0, "feats": data.num_feats, "classes": data.num_classes}
    found.update(dict.fromkeys(("train", "val", "test"), 0))
    same = 0
    for g in data.graphs:
        pairs, label = linked_pairs(g), g.ndata["label"].numpy()
        found["nodes"] += g.num_nodes()
        found["pairs"] += len(pairs)
        for name in ("train", "val", "test"):
            found[name] += int(g.ndata[f"{name}_mask"].sum())
        if not data.multilabel:
            u, v = ends_of_pairs(pairs)
            same += int((label[u] == label[v]).sum())
    return Counts(**found) if data.multilabel else Counts(**found, same=same, other=found["pairs"] - same)


def text(plan: Plan, records: Records) -> str:
    def row(name: str, figures: Any) -> list[str]:
        return [name, *(NONE if x is None else f"{x:,}" for x in figures)]

    lines, equal = [], {}
    for dataset in DATASETS:
        counts = records.get(_job(plan, dataset))
        ours = [getattr(counts, column, None) for column in COLUMNS]
        lines += [row(dataset, ours), row("the paper's", PAPER[dataset])]
        if counts and dataset != "synthetic":
            equal[dataset] = all(p is None or p == x for p, x in zip(PAPER[dataset], ours))
    head = [
        "",
        "nodes",
        "linked pairs",
        "features",
        "classes",
        "train",
        "val",
        "test",
        "same label",
        "different labels",
    ]
    said = claim("The counts are the paper's", equal)
    why = "\nHere each linked pair counts once, and self-loops do not; the paper counts lines of the files.\n\n"
    return said + why + markdown(head, lines)

"""What the studies compare: all methods, ptdnet-plus with some of its parts, and controls without gates."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..data import load
from ..train import resolve
from .jobs import Job, Plan

BACKBONES = ("gcn", "sage", "gat")
METHODS: dict[str, dict[str, Any]] = {
    "Basic": {"method": "basic"},
    "MLP": {"method": "mlp", "backbone": "gcn"},  # it ignores edges, so one serves all backbones
    "DropEdge": {"method": "dropedge"},
    "NeuralSparse": {"method": "neuralsparse"},
    "PTDNet-wl": {"method": "ptdnet-wl"},
    "PTDNet": {"method": "ptdnet"},
    "ptdnet-plus": {"method": "ptdnet-plus"},
}
PARTS: dict[str, dict[str, Any]] = {
    "ptdnet-plus, prior only": {"method": "ptdnet-plus", "agreement": False, "gate_samples": 1},
    "ptdnet-plus, agreement only": {"method": "ptdnet-plus", "prior": False, "gate_samples": 1},
    "ptdnet-plus, one gate sample": {"method": "ptdnet-plus", "gate_samples": 1},
}
CONTROLS: dict[str, dict[str, Any]] = {
    "control: Basic + node MLP": {"method": "basic", "control": "node-mlp"},
    "control: Basic, last layer shut": {"method": "basic", "control": "shut"},
    "control: both of these": {"method": "basic", "control": "shut-node-mlp"},
    "control: Basic + self-training": {"method": "basic", "control": "self-training"},
    "control: Basic + consistency": {"method": "basic"},  # with settings of ptdnet-plus, see row_of
}
ROWS = {**METHODS, **PARTS, **CONTROLS}
CONSISTENCY = ("gate_samples", "consistency_weight", "consistency_warm_up", "consistency_temperature")
ONE_LABEL_ONLY = (*PARTS, "control: Basic + self-training", "control: Basic + consistency")


@cache
def one_label(dataset: str) -> bool:
    """Whether a data set is one graph whose nodes have one label each. A file is read to find out."""
    if dataset == "ppi":
        return False
    if not dataset.endswith((".npz", ".bin")):
        return True
    data = load(dataset)
    return not data.multilabel and len(data.graphs) == 1


def rows_of(dataset: str) -> list[str]:
    """The rows for a data set. ptdnet-plus has no agreement if nodes have several labels, as in PPI."""
    return [row for row in ROWS if one_label(dataset) or row not in ONE_LABEL_ONLY]


def row_of(row: str, **given: Any) -> dict[str, Any]:
    """The settings of a row, with the other settings that are given."""
    found = {**given, **ROWS[row]}
    if row == "control: Basic + consistency":
        like = resolve({**given, "method": "ptdnet-plus"})
        found.update((name, getattr(like, name)) for name in CONSISTENCY)
    return found


def jobs_of(plan: Plan, row: str, seeds: int, **given: Any) -> list[Job]:
    """The runs of a row, one for each seed."""
    return [plan.job(seed, **row_of(row, **given)) for seed in plan.seeds(seeds)]

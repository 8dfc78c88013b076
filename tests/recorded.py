"""Figures and records for the tests of studies."""

import json

from dgl_ptdnet.studies.jobs import Job, Plan, default_values
from dgl_ptdnet.train.results import SeedResult

QUICK = Plan(quick=True)


def figures(test=0.5, **given):
    """The figures of a run, of which only some matter."""
    values = {"seed": 0, "metric": "accuracy", "val": 0.5, "val_loss": 1.0, "best_epoch": 0, "epochs": 1}
    return SeedResult(**{**values, "test": test, "epoch_seconds": 0.1, **given})


def lines(folder):
    return {path.name: path.read_bytes().splitlines(True) for path in folder.glob("*.jsonl")}


def recorded(folder):
    """The jobs that have a line in a folder."""
    return [Job.from_json(json.loads(line)["job"], default_values()) for of in lines(folder).values() for line in of]

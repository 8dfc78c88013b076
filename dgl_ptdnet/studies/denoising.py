"""The denoising process on the synthetic graph: gates of good and bad edges, accuracy, and degrees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ..graph import edges_of
from ..train.loop import Trainer
from ..train.results import JsonRecord, Numbers
from ..train.run import make_data
from ..train.tasks import make_task
from .claims import TELLS, claim, why_by
from .jobs import Job, Plan, data_of
from .methods import CONTROLS, PARTS, jobs_of
from .pictures import legend_below, save, subplots
from .records import Records
from .runs import NONE, Runs, number, with_p
from .tables import markdown

TITLE = "The denoising process on the synthetic graph"
SHOWN = ("PTDNet", "ptdnet-plus", "DropEdge")
POINTS = 50
SEEDS = 3
CURVES = {"train": "edges at training nodes", "test": "edges at test nodes, not at training nodes"}
BESIDE = ("Basic", *PARTS, *CONTROLS)  # rows with accuracy only


@dataclass(frozen=True)
class Curves(JsonRecord):
    """A run whose gates were looked at several times.

    ``curves``: by name, values at some epochs. ``degrees_before`` and ``degrees_kept``: how many nodes have 0, 1, 2,
    ... edges in the graph, and in what the first layer keeps of it.
    """

    val: float
    test: float
    best_epoch: int
    epoch_seconds: float
    curves: dict[str, Numbers]
    degrees_kept: tuple[int, ...]
    degrees_before: tuple[int, ...]


FIGURES = {"": Curves}


def _jobs(plan: Plan, row: str) -> list[Job]:
    runs = jobs_of(plan, row, SEEDS, dataset="synthetic", backbone="gcn")
    return runs if row in BESIDE else [replace(job, measure="denoising") for job in runs]


def jobs(plan: Plan) -> list[Job]:
    return [job for row in (*SHOWN, *BESIDE) for job in _jobs(plan, row)]


def measure(job: Job, data_dir: Any) -> Curves:
    """Trains, and records the first layer's mean gates at some epochs."""
    settings = replace(job.settings, threads=1)
    seed = settings.first_seed
    task = make_task(make_data(settings, seed, data_of(job, data_dir)), settings, seed)
    trainer = Trainer(task, settings, seed)
    g = task.parts[0].graph
    index, label = edges_of(g).index, g.ndata["label"]
    src, dst = index.src.long(), index.dst.long()
    chosen = {}
    seen, asked = (g.ndata[f"{split}_mask"][src] | g.ndata[f"{split}_mask"][dst] for split in CURVES)
    for split, at in zip(CURVES, (seen, asked & ~seen)):
        for name, same in (("same", label[src] == label[dst]), ("other", label[src] != label[dst])):
            chosen[f"{split}_{name}"] = at & same & (src != dst)
    curves: dict[str, list[float]] = {name: [] for name in (*chosen, "epoch", "accuracy")}
    step = max(1, settings.epochs // POINTS)
    while not trainer.done:
        row = trainer.run_epoch()
        if row.epoch % step == 0:
            curves["epoch"].append(row.epoch)
            curves["accuracy"].append(trainer.evaluate("test").metric)
            z = _gates(trainer)
            for name, edges in chosen.items():
                curves[name].append(round(float(z[edges].mean()), 4))
    result = trainer.finish().result
    kept = (src != dst) & (_gates(trainer) > 0)
    return Curves(
        val=result.val,
        test=result.test,
        best_epoch=result.best_epoch,
        epoch_seconds=result.epoch_seconds,
        curves={name: tuple(values) for name, values in curves.items()},
        degrees_kept=_degrees(dst[kept], len(label)),
        degrees_before=_degrees(dst[src != dst], len(label)),
    )


@torch.no_grad()
def _gates(trainer: Trainer) -> Tensor:
    """The first layer's gates in evaluation. DropEdge keeps all edges there, so its gates are a sample."""
    gate, part = trainer.model.gates[0], trainer.task.parts[0]
    if trainer.settings.method != "dropedge":
        return gate.gates
    return gate.train()(part.graph, part.graph.ndata["feat"])


def _degrees(dst: Tensor, num_nodes: int) -> tuple[int, ...]:
    return tuple(dst.bincount(minlength=num_nodes).bincount().tolist())


def _last(found: list[Curves], name: str) -> float:
    return fmean(figures.curves[name][-1] for figures in found)


def text(plan: Plan, records: Records) -> str:
    lines, tells, generalises, said = [], {}, {}, ""
    basic = Runs(records, _jobs(plan, "Basic"))
    for row in SHOWN:
        runs = Runs(records, _jobs(plan, row))
        line = [row, with_p(runs, basic), *[NONE] * 4]
        if len(runs):
            ends = {name: _last(runs.figures, name) for name in runs.figures[0].curves}
            line[2:] = [number(ends[name]) for name in ("train_same", "train_other", "test_same", "test_other")]
            if row != "DropEdge":
                tells[row] = ends["train_same"] - ends["train_other"] >= TELLS
                generalises[row] = ends["test_same"] - ends["test_other"] >= TELLS
                said += why_by(
                    row, {f"at {split} nodes": ends[f"{split}_same"] - ends[f"{split}_other"] for split in CURVES}
                )
        lines.append(line)
    lines += [[row, with_p(Runs(records, _jobs(plan, row)), basic), *[NONE] * 4] for row in BESIDE]
    head = [
        "",
        "test accuracy",
        "gates: training, same label",
        "different labels",
        "test, same label",
        "different labels",
    ]
    return (
        claim(f"At training nodes, mean gates of bad edges end at least {TELLS} below those of good edges", tells)
        + claim("The same holds for edges at test nodes that have no training node as an end", generalises)
        + "\nTest accuracy ± spread (seeds), p against Basic; mean gates of the first layer after the last epoch, for "
        + f"DropEdge a sample:\n\n{markdown(head, lines)}{said}"
        + "\n![gates, accuracy and degrees](results/denoising.png)\n"
    )


def draw(plan: Plan, records: Records, folder: Path) -> None:
    figure, axes = subplots(4, 3.6)
    for number_of_row, row in enumerate(SHOWN):
        found: list[Curves] = records.of(_jobs(plan, row))
        if not found:
            continue
        color, first = f"C{number_of_row}", found[0].curves
        for axis, split in zip(axes, CURVES):
            for name, style in (("same", "-"), ("other", ":")):
                axis.plot(first["epoch"], first[f"{split}_{name}"], style, color=color, label=f"{row}, {name} label")
        axes[2].plot(first["epoch"], first["accuracy"], color=color, label=row)
        axes[3].plot(found[0].degrees_kept, "--", color=color)
        if row == SHOWN[0]:
            axes[3].plot(found[0].degrees_before, color="black", lw=0.8, label="before")
            axes[3].legend(fontsize=7)
    for axis, title in zip(axes, (*CURVES.values(), "test accuracy", "nodes by degree, first layer")):
        what = {"test accuracy": "test accuracy", **dict.fromkeys(CURVES.values(), "mean gate, first layer")}
        axis.set(xlabel="degree" if "degree" in title else "epoch", ylabel=what.get(title, "nodes"))
        axis.set_title(title, fontsize=9)
    legend_below(figure, axes[0])
    figure.suptitle("one seed; degrees: dashed", fontsize=9)
    save(figure, folder / "denoising.png")

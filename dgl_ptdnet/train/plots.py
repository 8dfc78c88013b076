"""Pictures of a run."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from .atomic import write_atomic
from .results import Epoch, SeedRun


def draw(path: Path, metric: str, seeds: list[SeedRun]) -> None:
    """Draws the training curves of a run as PNG files into a folder. Without matplotlib nothing is drawn."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return
    histories = [seed.history for seed in seeds]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    _lines(left, histories, {"loss": "training", "val_loss": "validation"})
    left.set(xlabel="epoch", ylabel="loss")
    _lines(right, histories, {"train": "training", "val": "validation"})
    right.set(xlabel="epoch", ylabel=metric)
    _save(figure, path / "training.png")

    row = histories[0][0]
    if row.edges_kept is None:
        return
    layers = range(len(row.edges_kept))
    if row.gate_same is not None:
        figure = Figure(figsize=(4.5 * len(layers), 3.5), layout="constrained")
        for k, axes in zip(layers, figure.subplots(1, len(layers), squeeze=False)[0]):
            _lines(axes, histories, {"gate_same": "same label", "gate_other": "different label"}, k)
            axes.set(xlabel="epoch", ylabel=f"mean gate, layer {k + 1}", ylim=(-0.02, 1.02))
        _save(figure, path / "gates.png")

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for k in layers:
        _lines(axes, histories, {"edges_kept": f"layer {k + 1}"}, k, f"C{k}")
    axes.set(xlabel="epoch", ylabel="share of edges kept", ylim=(-0.02, 1.02))
    _save(figure, path / "edges.png")

    figure = Figure(figsize=(5, 3.5), layout="constrained")
    axes = figure.subplots()
    for name, counts in seeds[0].degrees.items():
        degrees = [degree for degree, count in enumerate(counts) if count]
        axes.plot([x + 1 for x in degrees], [counts[x] for x in degrees], ".-", lw=0.7, label=name)
    axes.set(xlabel="degree + 1", ylabel="nodes", xscale="log", yscale="log")
    axes.legend()
    _save(figure, path / "degrees.png")


def _lines(
    axes: Any, histories: list[list[Epoch]], names: dict[str, str], layer: int | None = None, color: str = ""
) -> None:
    for number, (name, label) in enumerate(names.items()):
        for seed, rows in enumerate(histories):
            values = [getattr(row, name) if layer is None else getattr(row, name)[layer] for row in rows]
            axes.plot(values, color=color or f"C{number}", alpha=0.9 if seed == 0 else 0.25, lw=1, label=label)
            label = "_"
    axes.legend()


def _save(figure: Any, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    write_atomic(path, buffer.getvalue())

"""Figures, drawn without a display."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ..train.atomic import write_atomic


def subplots(columns: int, width: float = 4.2) -> tuple[Any, Any]:
    """A figure with axes side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, 3.4), layout="constrained")
    axes = figure.subplots(1, columns, squeeze=False)[0]
    for axis in axes:
        axis.grid(alpha=0.3)
    return figure, axes


def legend_below(figure: Any, axis: Any) -> None:
    """Draws one legend for all axes, below them."""
    handles, labels = axis.get_legend_handles_labels()
    if handles:
        figure.legend(handles, labels, loc="outside lower center", ncols=min(4, len(labels)), fontsize=7)


def save(figure: Any, path: Path) -> None:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90, metadata={"Software": None})
    write_atomic(path, buffer.getvalue())

"""The figure of over-smoothing: 2 to 16 layers on a dense synthetic graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .jobs import Plan
from .pictures import save, subplots
from .queue import Records
from .tables import NONE, Runs, claim, markdown

TITLE = "Depth and over-smoothing"
DEPTHS = (2, 4, 8, 16)
SEEDS = 3
PAIRS = 25_000  # five times those of the paper's synthetic graph, which says "more edges"
LINES: dict[str, dict[str, Any]] = {
    "GCN": {"method": "basic"},
    "MLP": {"method": "mlp"},
    **{f"DropEdge {p:g}": {"method": "dropedge", "dropedge": p} for p in (0.1, 0.8, 0.99)},
    "PTDNet": {"method": "ptdnet"},
    "ptdnet-plus": {"method": "ptdnet-plus"},
}


def _jobs(plan: Plan, line: str, layers: int) -> list[dict[str, Any]]:
    data = {"make": "synthetic", "num_pairs": PAIRS}
    given = {"dataset": "synthetic", "backbone": "gcn", "layers": layers, **LINES[line]}
    return [plan.job(seed, data, **given) for seed in plan.seeds(SEEDS)]


def jobs(plan: Plan) -> list[dict[str, Any]]:
    return [job for layers in plan.few(DEPTHS) for line in LINES for job in _jobs(plan, line, layers)]


def text(plan: Plan, records: Records) -> str:
    depths = plan.few(DEPTHS)
    found = {line: {layers: Runs(records, _jobs(plan, line, layers)) for layers in depths} for line in LINES}
    rows = [
        [line, *(f"{runs} ({len(runs)})" if len(runs) else NONE for runs in of.values())] for line, of in found.items()
    ]
    smooth, best = {}, {}
    for layers in depths:
        at = {line: of[layers] for line, of in found.items() if len(of[layers])}
        if layers >= 4 and "GCN" in at and "MLP" in at:
            smooth[f"{layers} layers"] = at["GCN"].mean < at["MLP"].mean
        others = [at[line].mean for line in at if line not in ("PTDNet", "ptdnet-plus")]
        if "PTDNet" in at and others:
            best[f"{layers} layers"] = at["PTDNet"].mean > max(others)
    return (
        claim("From 4 layers on a GCN is worse than an MLP", smooth)
        + claim("PTDNet is better than all baselines", best)
        + f"\nTest accuracy, spread, number of seeds; {PAIRS:,} linked pairs:\n\n"
        + markdown(["layers", *map(str, depths)], rows)
        + "\n![accuracy by depth](results/depth.png)\n"
    )


def draw(plan: Plan, records: Records, folder: Path) -> None:
    figure, (axis,) = subplots(1, 5)
    for line in LINES:
        found = [(layers, Runs(records, _jobs(plan, line, layers))) for layers in plan.few(DEPTHS)]
        points = [(layers, runs.mean) for layers, runs in found if len(runs)]
        if points:
            axis.plot(*zip(*points), "o-", ms=3, label=line)
            axis.legend(fontsize=7)
    axis.set(xscale="log", xlabel="layers", ylabel="test accuracy")
    axis.set_xticks(plan.few(DEPTHS), [str(x) for x in plan.few(DEPTHS)])
    save(figure, folder / "depth.png")

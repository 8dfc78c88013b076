"""Over-smoothing: networks with 2 to 16 layers on a dense synthetic graph."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from .claims import claim_above, why
from .jobs import Job, Plan, Variant
from .methods import CONTROLS, PARTS, row_of
from .pictures import legend_below, save, subplots
from .records import Records
from .runs import Runs, with_p
from .tables import markdown

TITLE = "Depth and over-smoothing"
DEPTHS = (2, 4, 8, 16)
SEEDS = 3
PAIRS = 25_000  # five times as many as in the paper's synthetic graph; the paper says "more edges"
LINES: dict[str, dict[str, Any]] = {
    "GCN": {"method": "basic"},
    "MLP": {"method": "mlp"},
    **{f"DropEdge {p:g}": {"method": "dropedge", "dropedge_rate": p} for p in (0.1, 0.8, 0.99)},
    "PTDNet": {"method": "ptdnet"},
    "ptdnet-plus": {"method": "ptdnet-plus"},
    **PARTS,
    **CONTROLS,
}
BASELINES = ("GCN", "MLP", "DropEdge 0.1", "DropEdge 0.8", "DropEdge 0.99")


def _jobs(plan: Plan, line: str, layers: int) -> list[Job]:
    variant = Variant.of("synthetic", num_pairs=PAIRS)
    given: dict[str, Any] = {"dataset": "synthetic", "backbone": "gcn", "layers": layers}
    given = row_of(line, **given) if line in CONTROLS else {**given, **LINES[line]}
    return [plan.job(seed, variant, **given) for seed in plan.seeds(SEEDS)]


def jobs(plan: Plan) -> list[Job]:
    return [job for layers in plan.few(DEPTHS) for line in LINES for job in _jobs(plan, line, layers)]


def text(plan: Plan, records: Records) -> str:
    depths = plan.few(DEPTHS)
    found = {line: {layers: Runs(records, _jobs(plan, line, layers)) for layers in depths} for line in LINES}
    rows = [[line, *(with_p(runs, found["GCN"][layers]) for layers, runs in of.items())] for line, of in found.items()]
    smooth, best = {}, {}
    for layers in depths:
        at = {line: of[layers] for line, of in found.items() if len(of[layers])}
        if layers >= 4 and "GCN" in at and "MLP" in at:
            smooth[f"{layers} layers"] = at["MLP"], at["GCN"]
        others = [at[line] for line in BASELINES if line in at]
        if "PTDNet" in at and others:
            best[f"{layers} layers"] = at["PTDNet"], max(others, key=lambda runs: runs.mean)
    return (
        claim_above("With 4 or more layers a GCN is worse than an MLP", smooth)
        + claim_above("PTDNet is better than all baselines", best)
        + f"\nTest accuracy ± spread (seeds), p against GCN; {PAIRS:,} linked pairs:\n\n"
        + markdown(["layers", *map(str, depths)], rows)
        + _why(found)
        + "\n![accuracy by depth](results/depth.png)\n"
    )


def _why(found: dict[str, dict[int, Runs]]) -> str:
    said = ""
    mlp = {layers: runs.mean for layers, runs in found["MLP"].items() if len(runs)}
    if failing := [f"{mlp[layers]:.3f} at {layers}" for layers in mlp if mlp[layers] < mlp[min(mlp)] - 0.1]:
        said += (
            f"\nWhy: an MLP, which cannot over-smooth, gets worse as well, from {mlp[min(mlp)]:.3f} with {min(mlp)} "
            f"layers to {', '.join(failing)}. So at these depths training itself fails; this is not over-smoothing.\n"
        )
    for line in ("PTDNet", "ptdnet-plus"):
        said += why(line, {f"with {layers} layers": runs for layers, runs in found[line].items()})
        kept = {layers: [figures.edges_kept for figures in runs.figures] for layers, runs in found[line].items()}
        means = [f"{fmean(map(fmean, of)):.2f} with {layers} layers" for layers, of in kept.items() if of]
        said += f"\nShare of edges that {line} keeps, mean over layers: {', '.join(means)}.\n" if means else ""
    return said


def draw(plan: Plan, records: Records, folder: Path) -> None:
    figure, (axis,) = subplots(1, 5)
    for line in (*BASELINES, "PTDNet", "ptdnet-plus"):
        found = [(layers, Runs(records, _jobs(plan, line, layers))) for layers in plan.few(DEPTHS)]
        points = [(layers, runs.mean, runs.spread) for layers, runs in found if len(runs)]
        if points:
            x, mean, spread = zip(*points)
            axis.errorbar(x, mean, spread, fmt="o-", ms=3, lw=1, capsize=2, label=line)
    axis.set(xscale="log", xlabel="layers", ylabel="test accuracy")
    axis.minorticks_off()
    axis.set_xticks(plan.few(DEPTHS), [str(x) for x in plan.few(DEPTHS)])
    legend_below(figure, axis)
    save(figure, folder / "depth.png")

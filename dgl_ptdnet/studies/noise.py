"""Accuracy with noisy edges: Cora with 1,000 to 20,000 random pairs of nodes connected."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.names import NOISE_KINDS
from .claims import claim, claim_above
from .jobs import Job, Plan
from .methods import BACKBONES, METHODS, PARTS, jobs_of, rows_of
from .pictures import legend_below, save, subplots
from .records import Records
from .runs import NONE, Runs, number, with_p
from .tables import NAMES, better, gate_table, markdown, method_table, runs_of

TITLE = "Accuracy with noisy edges in Cora"
LEVELS = (0, 1000, 5000, 10000, 15000, 20000)
SEEDS = 5
SEEDS_AT_MAXIMUM = 10  # with the largest number of pairs
GAIN = {"gcn": 0.3737, "sage": 0.134, "gat": 0.161}  # in the paper: PTDNet over Basic at 20,000
KIND_BACKBONES = ("gcn",)  # for noise that is not uniform; --noise-kind runs one kind with all backbones
KIND_ROWS = (*METHODS, *PARTS)
AUTHORS = {"gcn": {"Basic": 0.54, "PTDNet": 0.50}}


def _seeds(level: int, kind: str = "uniform") -> int:
    return SEEDS_AT_MAXIMUM if level == LEVELS[-1] and kind == "uniform" else SEEDS


def _given(level: int, backbone: str = "gcn", kind: str = "uniform") -> dict[str, Any]:
    return {"dataset": "cora", "noise_edges": level, "noise_kind": kind, "backbone": backbone}


def jobs(plan: Plan) -> list[Job]:
    uniform = plan.noise_kind == "uniform"
    kinds = NOISE_KINDS[1:] if uniform else [plan.noise_kind]
    backbones, rows = (KIND_BACKBONES, [*KIND_ROWS]) if uniform else (BACKBONES, rows_of("cora"))
    found = []
    for level in reversed(plan.few(LEVELS)) if uniform else ():
        for backbone in BACKBONES:
            for row in rows_of("cora"):
                found += jobs_of(plan, row, _seeds(level), **_given(level, backbone))
    for kind in kinds:
        for backbone in backbones:
            for row in rows:
                found += jobs_of(plan, row, SEEDS, **_given(LEVELS[-1], backbone, kind))
    return found


def text(plan: Plan, records: Records) -> str:
    levels, at = plan.few(LEVELS), LEVELS[-1]
    beats: dict[str, dict[str, tuple[Runs, Runs]]] = {row: {} for row in ("Basic", "DropEdge", "NeuralSparse")}
    rows, reached, widens = [], {}, {}
    for backbone in BACKBONES:
        gains = {}
        for level in levels:
            given = _given(level, backbone)
            basic, faithful, plus = (
                runs_of(plan, records, r, _seeds(level), given) for r in ("Basic", "PTDNet", "ptdnet-plus")
            )
            if level:
                for row in beats:
                    other = runs_of(plan, records, row, _seeds(level), given)
                    beats[row][f"{NAMES[backbone]} + {level:,}"] = faithful, other
            best = better(faithful, plus)
            if len(basic) and len(best):
                gains[level] = best.mean / basic.mean - 1
        line = [NAMES[backbone], NONE, NONE, f"{100 * GAIN[backbone]:.1f} %"]
        if at in gains:
            best_is = "PTDNet" if best is faithful else "ptdnet-plus"
            line[1:3] = [f"{best_is}: {number(basic.mean)} to {number(best.mean)}", f"{100 * gains[at]:.1f} %"]
            reached[NAMES[backbone]] = gains[at] >= GAIN[backbone]
            if 0 in gains:
                widens[NAMES[backbone]] = gains[at] > gains[0]
        rows.append(line)
    parts = [f"Settings were searched without noise and with {at:,} pairs; other numbers of pairs use the nearer.\n\n"]
    parts += [claim_above(f"PTDNet is better than {row} with every number of pairs", of) for row, of in beats.items()]
    parts.append(
        claim(
            f"With {at:,} pairs PTDNet or ptdnet-plus, the better by validation, gains what it gains in the paper",
            reached,
        )
    )
    parts.append(claim(f"This gain is larger with {at:,} pairs than without noise", widens))
    parts.append("\n" + markdown(["", f"with {at:,} pairs", "gain", "paper's gain"], rows))
    for backbone in BACKBONES:
        head = [NAMES[backbone], *(f"+ {level:,}" for level in levels)]
        lines = []
        for row in rows_of("cora"):
            cells = []
            for level in levels:
                given, seeds = _given(level, backbone), _seeds(level)
                cells.append(
                    with_p(runs_of(plan, records, row, seeds, given), runs_of(plan, records, "Basic", seeds, given))
                )
            lines.append([row, *cells])
        parts.append(f"\nTest accuracy ± spread (seeds), p against Basic:\n\n{markdown(head, lines)}")
    parts.append(f"\n![accuracy with noisy edges](results/noise.png)\n\n### cora + {at:,}\n\n")
    parts.append(method_table(plan, records, _given(at), SEEDS_AT_MAXIMUM, {}, AUTHORS))
    parts.append(gate_table(plan, records, _given(at), SEEDS_AT_MAXIMUM))
    return "".join([*parts, _kinds(plan, records)])


def _kinds(plan: Plan, records: Records) -> str:
    """Noise that is not uniform: a summary, and tables of the kinds that were run with all backbones."""
    rows, above, tables = [], {}, []
    for row in KIND_ROWS:
        cells = []
        for kind in NOISE_KINDS[1:]:
            given = _given(LEVELS[-1], KIND_BACKBONES[0], kind)
            runs, basic = (runs_of(plan, records, name, SEEDS, given) for name in (row, "Basic"))
            cells.append(with_p(runs, basic))
            if row == "ptdnet-plus":
                above[kind] = runs, basic
        rows.append([row, *cells])
    for kind in NOISE_KINDS[1:]:
        if records.of(jobs_of(plan, "Basic", SEEDS, **_given(LEVELS[-1], BACKBONES[-1], kind))):
            given = _given(LEVELS[-1], kind=kind)
            tables.append(f"\n`--noise-kind {kind}`, all rows:\n\n{method_table(plan, records, given, SEEDS, {}, {})}")
            tables.append(gate_table(plan, records, given, SEEDS))
    return (
        f"\n### cora + {LEVELS[-1]:,}, noise that is not uniform\n\nThe density prior assumes uniform noise. These "
        "runs use the settings that were found for it.\n\n"
        + claim_above("ptdnet-plus is better than Basic", above)
        + f"\n{markdown([NAMES[KIND_BACKBONES[0]], *NOISE_KINDS[1:]], rows)}"
        + "".join(tables)
    )


def draw(plan: Plan, records: Records, folder: Path) -> None:
    figure, axes = subplots(len(BACKBONES))
    for axis, backbone in zip(axes, BACKBONES):
        for row in METHODS:
            found = [
                (level, runs_of(plan, records, row, _seeds(level), _given(level, backbone)))
                for level in plan.few(LEVELS)
            ]
            points = [(level, runs.mean, runs.spread) for level, runs in found if len(runs)]
            if points:
                x, mean, spread = zip(*points)
                axis.errorbar(x, mean, spread, fmt="o-", ms=3, lw=1, capsize=2, label=row)
        axis.set(xlabel="random pairs of nodes connected as noise", ylabel="test accuracy", title=NAMES[backbone])
    legend_below(figure, axes[0])
    save(figure, folder / "noise.png")

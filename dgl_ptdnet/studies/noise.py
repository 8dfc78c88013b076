"""The figure of accuracy with noisy edges: Cora with 1,000 to 20,000 pairs that are not linked in truth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.noise import KINDS
from .jobs import Plan
from .pictures import save, subplots
from .queue import Records
from .rows import BACKBONES, METHODS, jobs_of, rows_of
from .tables import NAMES, NONE, better, claim, gate_table, markdown, method_table, number, runs_of, with_p

TITLE = "Accuracy with noisy edges in Cora"
LEVELS = (0, 1000, 5000, 10000, 15000, 20000)
SEEDS = 5
MOST = 10  # seeds at the last level
GAIN = {"gcn": 0.3737, "sage": 0.134, "gat": 0.161}  # the paper's, of PTDNet over Basic at 20,000
AUTHORS = {"gcn": {"Basic": 0.54, "PTDNet": 0.50}}


def _seeds(level: int, kind: str = "uniform") -> int:
    return MOST if level == LEVELS[-1] and kind == "uniform" else SEEDS


def _given(level: int, backbone: str = "gcn", kind: str = "uniform") -> dict[str, Any]:
    return {"dataset": "cora", "noise_edges": level, "noise_kind": kind, "backbone": backbone}


def jobs(plan: Plan) -> list[dict[str, Any]]:
    found = []
    for level in reversed(plan.few(LEVELS)) if plan.noise_kind == "uniform" else LEVELS[-1:]:
        for backbone in BACKBONES:
            for row in rows_of("cora"):
                found += jobs_of(plan, row, _seeds(level, plan.noise_kind), **_given(level, backbone, plan.noise_kind))
    return found


def text(plan: Plan, records: Records) -> str:
    levels, at = plan.few(LEVELS), LEVELS[-1]
    rows, beats, reached, widens = [], {}, {}, {}
    for backbone in BACKBONES:
        gains = {}
        for level in levels:
            given = _given(level, backbone)
            basic, faithful, plus = (
                runs_of(plan, records, r, _seeds(level), given) for r in ("Basic", "PTDNet", "ptdnet-plus")
            )
            if len(basic) and len(faithful) and level:
                beats[f"{NAMES[backbone]} + {level:,}"] = faithful.mean > basic.mean
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
    parts = [f"Settings were searched without noise and with {at:,} pairs; other levels have those of the nearer.\n\n"]
    parts.append(claim("The paper's method is better than Basic at every level", beats))
    parts.append(claim(f"The gain at {at:,} is at least the paper's, with the better method by validation", reached))
    parts.append(claim(f"The gain is larger at {at:,} than without noise", widens))
    parts.append("\n" + markdown(["", f"at {at:,} pairs", "gain", "paper's gain"], rows))
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
        parts.append(f"\nTest accuracy, spread (seeds), p of a paired test against Basic:\n\n{markdown(head, lines)}")
    parts.append(f"\n![accuracy with noisy edges](results/noise.png)\n\n### cora + {at:,}\n\n")
    parts.append(method_table(plan, records, _given(at), MOST, {}, AUTHORS))
    parts.append(gate_table(plan, records, _given(at), MOST))
    for kind in KINDS[1:]:
        given = _given(at, kind=kind)
        if records.of(
            job for backbone in BACKBONES for job in jobs_of(plan, "Basic", SEEDS, **_given(at, backbone, kind))
        ):
            parts.append(f"\n### cora + {at:,}, noise that is not uniform: {kind}\n\n`--noise-kind {kind}`\n\n")
            parts.append(method_table(plan, records, given, SEEDS, {}, {}) + gate_table(plan, records, given, SEEDS))
    return "".join(parts)


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
        axis.set(xlabel="pairs of unlinked nodes that were linked", ylabel="test accuracy", title=NAMES[backbone])
    if axes[0].lines:
        axes[0].legend(fontsize=7)
    save(figure, folder / "noise.png")

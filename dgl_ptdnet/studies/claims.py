"""Sentences that are written from finished runs: whether a claim holds, and what gates do."""

from __future__ import annotations

from statistics import fmean

from .runs import NONE, Runs, paired_p

TELLS = 0.05  # gates tell edges apart if their means differ by at least this
SHUT = 0.01  # a layer is shut if it keeps less than this share of its edges


def claim(words: str, cells: dict[str, bool]) -> str:
    """A claim, and in which cells of a table it holds."""
    if not cells:
        return f"- {words}: {NONE}, not run yet.\n"
    failing = [name for name, holds in cells.items() if not holds]
    if not failing:
        return f"- {words}: **true** in all {len(cells)}.\n"
    if len(failing) == len(cells):
        return f"- {words}: **false** in all {len(cells)} ({', '.join(failing)}).\n"
    return f"- {words}: true in {len(cells) - len(failing)} of {len(cells)}; false in {', '.join(failing)}.\n"


def claim_above(words: str, cells: dict[str, tuple[Runs, Runs]]) -> str:
    """The claim that one row is above another, and in how many cells the difference is significant."""
    there = {name: pair for name, pair in cells.items() if all(map(len, pair))}
    above = {name: one.mean > other.mean for name, (one, other) in there.items()}
    ps = [paired_p(*pair) for name, pair in there.items() if above[name]]
    significant = sum(p is not None and p < 0.05 for p in ps)
    said = claim(words, above)
    return f"{said[:-2]}; with p < 0.05 in {significant}.\n" if ps else said


def why(row: str, where: dict[str, Runs]) -> str:
    """Which layers of a row are shut, and whether its first layer's gates tell edges apart, for each place."""
    shut: dict[str, list[str]] = {}  # places by the layers that are shut there
    sees: dict[str, Runs] = {}
    for at, runs in where.items():
        kept = [fmean(of) for of in zip(*(figures.edges_kept for figures in runs.figures))]
        none = [layer for layer, share in enumerate(kept, 1) if share < SHUT]
        if none:
            every = len(none) == len(kept)
            shut.setdefault("every layer and becomes an MLP" if every else _layers(none), []).append(at)
        if len(runs) and len(none) < len(kept) and runs.figures[0].gate_same is not None:
            sees[at] = runs
    said = "; ".join(f"{layers} ({', '.join(places)})" for layers, places in shut.items())
    said = f"\n{row} shuts {said}.\n" if said else ""
    return said + why_by(row, {at: gap_of(runs) for at, runs in sees.items()})


def _layers(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    inside = numbers[-1] - numbers[0] == len(numbers) - 1 > 1
    return f"layers {numbers[0]} to {numbers[-1]}" if inside else f"layers {', '.join(map(str, numbers))}"


def gap_of(runs: Runs) -> float:
    """The difference of the first layer's mean gates of edges between equal and between different labels."""
    return fmean(figures.gate_same[0] - figures.gate_other[0] for figures in runs.figures)


def why_by(row: str, gaps: dict[str, float]) -> str:
    """Whether gates tell edges apart, from the differences of their means."""
    said = ""
    if blind := [f"{at} ({gap:+.3f})" for at, gap in gaps.items() if gap < TELLS]:
        said += (
            f"\nGates of {row} do not tell edges between equal labels from others {', '.join(blind)}: their means "
            f"differ by less than {TELLS}. Gains and losses there are not due to denoising.\n"
        )
    if sees := [f"{at} ({gap:+.3f})" for at, gap in gaps.items() if gap >= TELLS]:
        said += f"\nGates of {row} tell edges between equal labels from others {', '.join(sees)}.\n"
    return said

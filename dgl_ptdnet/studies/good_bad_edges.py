"""Figure 1: a GCN on Cora after removing edges between nodes with equal or with different labels."""

from __future__ import annotations

from pathlib import Path

from .claims import claim
from .jobs import Job, Plan, Variant
from .pictures import save, subplots
from .records import Records
from .runs import NONE, Runs
from .tables import markdown

TITLE = "Removing good and bad edges (figure 1)"
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SIDES = {True: "same label", False: "different labels"}
SEEDS = 5


def _jobs(plan: Plan, same: bool, share: float) -> list[Job]:
    variant = Variant(remove=(same, share)) if share else Variant()
    return [plan.job(seed, variant, dataset="cora", backbone="gcn", method="basic") for seed in plan.seeds(SEEDS)]


def jobs(plan: Plan) -> list[Job]:
    return [job for same in SIDES for share in SHARES for job in _jobs(plan, same, share)]


def _curves(plan: Plan, records: Records) -> dict[str, list[Runs]]:
    return {name: [Runs(records, _jobs(plan, same, share)) for share in SHARES] for same, name in SIDES.items()}


def text(plan: Plan, records: Records) -> str:
    curves = _curves(plan, records)
    head = ["removed edges", *(f"{share:.0%}" for share in SHARES)]
    lines = [[name, *(f"{runs} ({len(runs)})" if len(runs) else NONE for runs in of)] for name, of in curves.items()]
    steps: dict[str, dict[str, bool]] = {}
    for name, of in curves.items():
        pairs = [(a, b, share) for a, b, share in zip(of, of[1:], SHARES[1:]) if len(a) and len(b)]
        rises = name == SIDES[False]
        steps[name] = {f"{share:.0%}": b.mean > a.mean if rises else b.mean < a.mean for a, b, share in pairs}
    return (
        claim("Removing more edges between different labels raises accuracy at each step", steps[SIDES[False]])
        + claim("Removing more edges between equal labels lowers accuracy at each step", steps[SIDES[True]])
        + f"\nTest accuracy of a GCN ± spread (seeds):\n\n{markdown(head, lines)}"
        + "\n![accuracy after removing edges](results/good_bad_edges.png)\n"
    )


def draw(plan: Plan, records: Records, folder: Path) -> None:
    figure, (axis,) = subplots(1)
    for name, of in _curves(plan, records).items():
        points = [(share, runs.mean, runs.spread) for share, runs in zip(SHARES, of) if len(runs)]
        if points:
            x, mean, spread = zip(*points)
            axis.errorbar(x, mean, spread, fmt="o-", ms=3, lw=1, capsize=2, label=name)
            axis.legend(fontsize=8)
    axis.set(xlabel="share of edges removed", ylabel="test accuracy", title="GCN on Cora")
    save(figure, folder / "good_bad_edges.png")

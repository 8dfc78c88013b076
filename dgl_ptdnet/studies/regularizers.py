"""The regularizers: accuracy and kept edges for values of both coefficients, the best values for graphs of different
quality, and edges between communities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from ..train import train
from ..train.results import JsonRecord, Numbers
from .claims import claim, why
from .jobs import Job, Plan, Variant, data_of
from .pictures import save, subplots
from .records import Records
from .runs import NONE, Runs, number
from .tables import markdown

TITLE = "Effects of the regularizers"
TERMS = {"l0_weight": "β1, the L0 term", "rank_weight": "β2, the low-rank term"}
BETAS = (0.0, 0.001, 0.01, 0.05, 0.1, 0.5)
SHARES = (0.85, 0.7, 0.6, 0.5)
SEEDS = 3
PAPER_BEST = {0.85: (0.01, 0.05), 0.7: (0.04, 0.07), 0.6: (0.08, 0.08), 0.5: (1.0, 0.1)}
CROSSING: dict[tuple[float, float, int], float | None] = {  # β1, β2, K: the paper's, which does not state K
    (0.0, 0.0, 1): None,  # what the task alone does
    (0.05, 0.0, 1): 0.206,
    **{(0.0, 0.05, k): 0.189 for k in (1, 32)},
    **{(0.05, 0.05, k): 0.190 for k in (1, 32)},
}
COMMUNITIES = 5


@dataclass(frozen=True)
class Curve(JsonRecord):
    """A run: its mean gate in the first layer at some epochs, and its gates after the last."""

    val: float
    test: float
    best_epoch: int
    edges_kept: Numbers
    gate_same: Numbers
    gate_other: Numbers
    epoch: tuple[int, ...]
    gate: Numbers


@dataclass(frozen=True)
class Communities(JsonRecord):
    """Shares of edges between communities: of all edges, of those that the first layer keeps (None if it keeps none),
    and weighted by gates; and the share of edges kept."""

    test: float
    crossing_before: float
    crossing_kept: float | None = None
    crossing_weighted: float | None = None
    edges_kept: float = 0.0


FIGURES: dict[str, type[JsonRecord]] = {"curve": Curve, "communities": Communities}


def _jobs(plan: Plan, term: str, beta: float, share: float) -> list[Job]:
    variant = Variant.of("synthetic", same_label=share)
    given = {
        "dataset": "synthetic",
        "backbone": "gcn",
        "method": "ptdnet",
        "l0_weight": 0.0,
        "rank_weight": 0.0,
        term: beta,
    }
    runs = [plan.job(seed, variant, **given) for seed in plan.seeds(SEEDS)]
    return [replace(job, measure="regularizers", what="curve") for job in runs]


def _crossing(plan: Plan, l0_weight: float, rank_weight: float, k: int) -> list[Job]:
    given: dict[str, Any] = {"dataset": "planted", "backbone": "gcn", "method": "ptdnet"}
    given.update(l0_weight=l0_weight, rank_weight=rank_weight, rank_k=k)
    runs = [plan.job(seed, Variant.of("planted"), **given) for seed in plan.seeds(SEEDS)]
    return [replace(job, measure="regularizers", what="communities") for job in runs]


def jobs(plan: Plan) -> list[Job]:
    found = [
        job
        for term in TERMS
        for beta in plan.few(BETAS)
        for share in plan.few(SHARES)
        for job in _jobs(plan, term, beta, share)
    ]
    return found + [job for setting in CROSSING for job in _crossing(plan, *setting)]


def measure(job: Job, data_dir: Any) -> Curve | Communities:
    """Trains, and records the mean gate over epochs, or the share of edges between communities before and after
    dropping."""
    settings, data = replace(job.settings, threads=1), data_of(job, data_dir)
    if job.what == "communities":
        return _communities(settings, data)
    done = train(settings, data, progress=False).seeds[0]
    rows, same = done.history[:: max(1, settings.epochs // 50)], dict(job.variant.options)["same_label"]
    gates: dict[str, Any] = {
        name: getattr(done.history[-1], name) for name in ("edges_kept", "gate_same", "gate_other")
    }
    means = [
        same * row.gate_same[0] + (1 - same) * row.gate_other[0] for row in rows if row.gate_same and row.gate_other
    ]
    return Curve(
        val=done.result.val,
        test=done.result.test,
        best_epoch=done.result.best_epoch,
        epoch=tuple(row.epoch for row in rows),
        gate=tuple(round(mean, 4) for mean in means),
        **gates,
    )


def _communities(settings: Any, data: Any) -> Communities:
    from scipy.sparse import csr_matrix
    from sklearn.cluster import SpectralClustering

    from ..train.loop import Trainer
    from ..train.tasks import make_task

    seed = settings.first_seed
    src, dst = (x.numpy() for x in data.graph.edges())
    adjacency = csr_matrix((np.ones(len(src)), (src, dst)), (data.graph.num_nodes(),) * 2)
    clusters = SpectralClustering(COMMUNITIES, affinity="precomputed", random_state=seed).fit_predict(adjacency)
    trainer = Trainer(make_task(data, settings, seed), settings, seed)
    while not trainer.done:
        trainer.run_epoch()
    (small,) = trainer.denoised(threshold=0.0, layer=1)  # by the last epoch's gates
    u, v = (x.numpy() for x in small.edges())
    z = small.edata["gate"][:, 0].numpy()
    cross = clusters[u] != clusters[v]
    return Communities(
        test=trainer.finish().result.test,
        crossing_before=float((clusters[src] != clusters[dst]).mean()),
        crossing_kept=float(cross.mean()) if len(cross) else None,
        crossing_weighted=float(z[cross].sum() / z.sum()) if len(z) else None,
        edges_kept=len(u) / len(src),
    )


def text(plan: Plan, records: Records) -> str:
    parts = []
    betas, shares = plan.few(BETAS), plan.few(SHARES)
    falls: dict[str, bool] = {}
    best: dict[tuple[str, float], list[float]] = {}  # several if their validation is equal
    for term, name in TERMS.items():
        lines = []
        for share in shares:
            found = {beta: Runs(records, _jobs(plan, term, beta, share)) for beta in betas}
            there = {beta: runs for beta, runs in found.items() if len(runs)}
            if len(there) == len(found):
                maximum = max(runs.val for runs in there.values())
                best[term, share] = [beta for beta, runs in there.items() if runs.val == maximum]
                falls[f"{name} at {share}"] = _kept(there[betas[-1]]) < _kept(there[betas[0]])
            cells = [f"{runs} / {_kept(runs):.2f}" if len(runs) else NONE for runs in found.values()]
            lines.append([f"{share:.2f}", *cells])
        head = ["share of same-label edges", *(f"{name.split(',')[0]} = {beta:g}" for beta in betas)]
        parts.append(
            f"\n{name}: test accuracy ± spread / share of edges that the first layer keeps after the last epoch:\n\n"
            + markdown(head, lines)
        )
        strongest = {f"at {share:.2f}": Runs(records, _jobs(plan, term, betas[-1], share)) for share in shares}
        parts.append(why(f"PTDNet with {name.split(',')[0]} = {betas[-1]:g}, after the last epoch,", strongest))
    lines = []
    for share in shares:
        chosen = [best.get((term, share), []) for term in TERMS]
        lines.append([f"{share:.2f}", *(" or ".join(f"{x:g}" for x in of) or NONE for of in chosen)])
        lines[-1] += [f"{x:g}" for x in PAPER_BEST[share]]
    head = ["share of same-label edges", "best β1", "best β2", "paper's β1", "paper's β2"]
    parts.append(f"\nBest by validation, {SEEDS} seeds; our L0 term is the mean over edges:\n\n{markdown(head, lines)}")
    poorer = {
        name: min(best[term, shares[-1]]) > max(best[term, shares[0]])
        for term, name in TERMS.items()
        if (term, shares[-1]) in best and (term, shares[0]) in best
    }
    lines, fewer, alone = [], {}, None
    for (l0_weight, rank_weight, k), paper in CROSSING.items():
        found_ = records.of(_crossing(plan, l0_weight, rank_weight, k))
        line = [
            f"β1 = {l0_weight:g}, β2 = {rank_weight:g}" + (f", K = {k}" if rank_weight else ""),
            *[NONE] * 5,
            number(paper),
        ]
        if found_:
            means: dict[str, float | None] = {}
            for name in ("crossing_before", "crossing_kept", "crossing_weighted", "edges_kept"):
                known = [x for figures in found_ if (x := getattr(figures, name)) is not None]
                means[name] = fmean(known) if known else None
            line[1:6] = [*(number(x) for x in means.values()), str(len(found_))]
            share = means["crossing_weighted"]
            if not l0_weight and not rank_weight:
                alone = share
            elif not l0_weight and share is not None and alone is not None:
                fewer[f"K = {k}"] = share < alone
        lines.append(line)
    head = [
        "",
        "all edges",
        "kept edges",
        "weighted by gates",
        "share of edges kept",
        "seeds",
        "paper (all edges: 0.211)",
    ]
    parts.append(
        f"\nShare of edges between communities ({COMMUNITIES}, by spectral clustering) on the planted partition, in "
        "the first layer after the last epoch:\n\n" + markdown(head, lines)
    )
    parts.append("\n![effects of the regularizers](results/regularizers.png)\n")
    said = claim("The largest coefficient keeps fewer edges than a coefficient of 0", falls)
    said += claim(
        "The graph with the fewest same-label edges needs larger coefficients than that with the most", poorer
    )
    return (
        said
        + claim("The low-rank term lowers the share of edges between communities below that without both terms", fewer)
        + "".join(parts)
    )


def _kept(runs: Runs) -> float:
    return fmean(figures.edges_kept[0] for figures in runs.figures)


def draw(plan: Plan, records: Records, folder: Path) -> None:
    figure, axes = subplots(4, 3.6)
    for place, (term, name) in enumerate(TERMS.items()):
        for share in plan.few(SHARES):
            found = {beta: Runs(records, _jobs(plan, term, beta, share)) for beta in plan.few(BETAS)}
            points = [(beta, runs.mean) for beta, runs in found.items() if len(runs)]
            if points:
                axes[place].plot(*zip(*points), "o-", ms=3, label=f"{share:.2f} same label")
        axes[place].set(xlabel=name, ylabel="test accuracy")
        axes[place].set_xscale("symlog", linthresh=BETAS[1])
        for beta in plan.few(BETAS):
            for record in records.of(_jobs(plan, term, beta, SHARES[-1])[:1]):
                axes[2 + place].plot(record.epoch, record.gate, label=f"{beta:g}")
        axes[2 + place].set(
            xlabel="epoch",
            ylabel="mean gate, first layer",
            title=f"{name}, {SHARES[-1]:.2f}, a seed",
            ylim=(-0.02, 1.02),
        )
    for axis in axes:
        if axis.lines:
            axis.legend(fontsize=6)
    save(figure, folder / "regularizers.png")

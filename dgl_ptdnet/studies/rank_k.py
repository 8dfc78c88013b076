"""Impacts of K: accuracy and time of the low-rank term, compared with the time of the paper's algorithm."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor

from ..graph import edges_of
from ..low_rank import LowRank
from ..train import Settings
from ..train.results import JsonRecord
from .claims import claim, claim_above
from .jobs import Job, Plan, data_of
from .pictures import legend_below, save, subplots
from .records import Records
from .runs import NONE, Runs, number
from .tables import markdown

TITLE = "Impacts of K, the number of singular values"
KS = (1, 2, 4, 8, 16, 32)
SEEDS = 3
GRAPHS = ("synthetic", "cora")


def dense_norm(src: Tensor, dst: Tensor, num_nodes: int, z: Tensor, k: int) -> Tensor:
    r"""The sum of the k largest singular values by the paper's Algorithm 2, on matrices of size N x N.

    Parameters
    ----------
    src, dst : torch.Tensor
        Source and destination of each edge, :math:`(E,)`.
    num_nodes : int
        Number of nodes.
    z : torch.Tensor
        Gates, :math:`(E,)`, with gradient.
    k : int
        Number of singular values.

    Examples
    --------
    >>> import torch
    >>> from dgl_ptdnet.studies.rank_k import dense_norm
    >>> dense_norm(torch.tensor([0, 1]), torch.tensor([1, 0]), 2, torch.tensor([3.0, 4.0]), 2)
    tensor(7.)
    """
    a = torch.zeros(num_nodes, num_nodes, dtype=z.dtype).index_put((src.long(), dst.long()), z, accumulate=True)
    with torch.no_grad():
        vectors = torch.linalg.svd(a)[2][:k]
    b = a.T @ a
    total = torch.zeros((), dtype=z.dtype)
    for v in vectors:
        for _ in range(2):
            v = b @ v
            v = v / v.norm()
        total = total + (v @ (b @ v) / (v @ v)).sqrt()
        b = b - torch.outer(b @ v, v)
    return total


@dataclass(frozen=True)
class Times(JsonRecord):
    """Milliseconds of a step: of :class:`dgl_ptdnet.LowRank`, and of the paper's algorithm."""

    low_rank_ms: float
    dense_ms: float


FIGURES = {"": Times}


def _jobs(plan: Plan, k: int) -> list[Job]:
    given: dict[str, Any] = {"dataset": "synthetic", "backbone": "gcn", "method": "ptdnet"}
    given.update(hidden=256, epochs=300, rank_k=k)
    return [plan.job(seed, **given) for seed in plan.seeds(SEEDS)]


def _timing(plan: Plan, dataset: str, k: int) -> Job:
    settings = Settings(dataset=dataset, method="ptdnet", seeds=1, rank_k=k)
    return replace(plan.job_of(settings), measure="rank_k", alone=True)


def jobs(plan: Plan) -> list[Job]:
    runs = [job for k in plan.few(KS) for job in _jobs(plan, k)]
    return runs + [_timing(plan, dataset, k) for dataset in GRAPHS for k in plan.few(KS)]


def measure(job: Job, data_dir: Any) -> Times:
    """Measures a step, that is value and gradient for new gates, with one thread. As in training, LowRank starts from
    the vectors of the step before. The two algorithms take turns."""
    torch.set_num_threads(1)
    g = data_of(job, data_dir).graph
    index, k = edges_of(g).index, job.settings.rank_k
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(index.num_edges, generator=generator) + 1
    ours = LowRank(k)

    def gates() -> Tensor:
        nonlocal logits
        logits = logits + 0.05 * torch.randn(index.num_edges, generator=generator)
        return (torch.sigmoid(logits) * 1.2 - 0.1).clamp(0, 1).requires_grad_()

    def seconds(term: Callable[[Tensor], Tensor]) -> float:
        z = gates()
        begin = time.perf_counter()
        term(z).backward()
        return time.perf_counter() - begin

    for _ in range(5):
        seconds(lambda z: ours(index, z))
    times: dict[str, list[float]] = {"low_rank": [], "dense": []}
    for _ in range(3):
        times["low_rank"] += [seconds(lambda z: ours(index, z)) for _ in range(5)]
        times["dense"].append(seconds(lambda z: dense_norm(index.src, index.dst, index.num_src, z, k)))
    return Times(**{f"{name}_ms": 1e3 * median(of) for name, of in times.items()})


def text(plan: Plan, records: Records) -> str:
    ks = plan.few(KS)
    lines, ratios = [], {}
    found = {k: Runs(records, _jobs(plan, k)) for k in ks}
    for k, runs in found.items():
        line = [str(k), str(runs), str(len(runs))]
        for dataset in GRAPHS:
            record = records.get(_timing(plan, dataset, k))
            line += [NONE] * 3
            if record:
                ratio = record.dense_ms / record.low_rank_ms
                line[-3:] = [number(record.low_rank_ms, 2), number(record.dense_ms, 0), f"{ratio:,.0f}"]
                if k == KS[-1]:
                    ratios[dataset] = ratio >= 100
        lines.append(line)
    head = ["K", "test accuracy", "seeds"]
    head += [f"{dataset}: {what}" for dataset in GRAPHS for what in ("ms for a step", "paper's algorithm, ms", "ratio")]
    there = [k for k in ks if len(found[k])]
    rises = {f"K = {b} over {a}": (found[b], found[a]) for a, b in zip(there, there[1:])}
    return (
        claim_above("Accuracy increases with K", rises)
        + claim(f"At K = {KS[-1]} a step takes at most 1/100 of the time of the paper's algorithm", ratios)
        + f"\nA step computes value and gradient, with one thread.\n\n{markdown(head, lines)}"
        + _why([*found.values()])
        + "\n![accuracy and time by K](results/rank_k.png)\n"
    )


def _why(found: list[Runs]) -> str:
    found = [runs for runs in found if len(runs)]
    if not found:
        return ""
    means, spread = [runs.mean for runs in found], fmean(runs.spread for runs in found)
    apart = max(means) - min(means)
    words = "no more than seeds differ" if apart <= 2 * spread else "more than seeds differ"
    return f"\nWhy: the best and the worst K differ by {apart:.3f}, {words} (spread {spread:.3f}).\n"


def draw(plan: Plan, records: Records, folder: Path) -> None:
    figure, axes = subplots(2)
    ks = plan.few(KS)
    found = {k: Runs(records, _jobs(plan, k)) for k in ks}
    points = [(k, runs.mean, runs.spread) for k, runs in found.items() if len(runs)]
    if points:
        x, mean, spread = zip(*points)
        axes[0].errorbar(x, mean, spread, fmt="o-", ms=3, capsize=2)
    for dataset in GRAPHS:
        timed = {k: record for k in ks if (record := records.get(_timing(plan, dataset, k)))}
        for name, label in (("low_rank_ms", "LowRank"), ("dense_ms", "paper's algorithm")):
            if timed:
                axes[1].plot(
                    [*timed],
                    [getattr(times, name) for times in timed.values()],
                    "o-",
                    ms=3,
                    label=f"{dataset}, {label}",
                )
    axes[0].set(xscale="log", xlabel="K", ylabel="test accuracy")
    axes[1].set(xscale="log", yscale="log", xlabel="K", ylabel="milliseconds for a step")
    for axis in axes:
        axis.set_xticks(ks, [str(k) for k in ks])
        axis.minorticks_off()
    legend_below(figure, axes[1])
    save(figure, folder / "rank_k.png")

"""Gated sums against DGL's unweighted and weighted ones, and gated attention against the body of DGL's GATConv.

python benchmarks/aggregate.py                       every case, to out/aggregate.json and .png
python benchmarks/aggregate.py --quick               power-law graph, all threads
python benchmarks/aggregate.py --large               1 M to 100 M edges, F = 16
python benchmarks/aggregate.py --compare old.json    and fail if a ratio grew by more than --slack (default 1.25)

DGL_PTDNET_CPU_LEVEL=avx2 measures another instruction set.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import add_comparison, compare, machine, medians, peak_bytes, progress, random_edges, save, table
from torch import Tensor

import dgl_ptdnet as ptd
from dgl_ptdnet._dgl import dgl

EDGES, NODES = 1_300_000, 45_000
OURS, UNWEIGHTED, WEIGHTED, GAT, ATTENTION = "aggregate", "copy_u_sum", "u_mul_e_sum", "GATConv's body", "attention"


class Graph:
    """A graph in the form of both libraries, with everything that is made once for each graph."""

    def __init__(self, kind: str, order: str, edges: int = EDGES, nodes: int = NODES, with_dgl: bool = True) -> None:
        torch.manual_seed(0)
        src, dst = random_edges(edges, nodes, power_law=kind == "power law")
        if order == "by destination":
            place = torch.argsort(dst, stable=True)
            src, dst = src[place], dst[place]
        self.name, self.edges, self.nodes = f"{kind}, {order}", edges, nodes
        self.index = ptd.EdgeIndex(src, dst, nodes, nodes)
        if with_dgl:
            self.dgl = dgl.graph((src, dst), num_nodes=nodes)
            self.dgl.create_formats_()


def both(forward: Callable[[], Any], leaves: list[Tensor], grad: Tensor) -> Callable[[], None]:
    def run() -> None:
        forward().backward(grad)
        for x in leaves:
            x.grad = None

    return run


def timed(contenders: dict[str, Callable[[], Any]], leaves: list[Tensor], grad: Tensor, repeats: int) -> dict:
    forward = {name: torch.no_grad()(run) for name, run in contenders.items()}
    backward: dict[str, Callable] = {name: both(run, leaves, grad) for name, run in contenders.items()}
    return {"forward": medians(forward, repeats), "both": medians(backward, repeats)}


def sums(graph: Graph, heads: int, feats: int, repeats: int) -> dict[str, Any]:
    shape = (heads, feats) if heads > 1 else (feats,)
    h = torch.randn(graph.nodes, *shape, requires_grad=True)
    z = torch.rand(graph.edges, *shape[:-1], requires_grad=True)
    contenders: dict[str, Callable[[], Any]] = {
        OURS: lambda: ptd.aggregate(graph.index, h, z),
        UNWEIGHTED: lambda: dgl.ops.copy_u_sum(graph.dgl, h),
        WEIGHTED: lambda: dgl.ops.u_mul_e_sum(graph.dgl, h, z[..., None]),
    }
    name = f"{heads} x {feats}" if heads > 1 else str(feats)
    return {"case": f"F={name}", "base": OURS, **timed(contenders, [h, z], torch.randn_like(h), repeats)}


def attention(graph: Graph, heads: int, feats: int, repeats: int) -> dict[str, Any]:
    h = torch.randn(graph.nodes, heads, feats, requires_grad=True)
    el, er = (torch.randn(graph.nodes, heads, requires_grad=True) for _ in range(2))
    z = torch.rand(graph.edges, requires_grad=True)

    def gat() -> Tensor:
        scores = dgl.ops.u_add_v(graph.dgl, el[..., None], er[..., None])
        weights = dgl.ops.edge_softmax(graph.dgl, torch.nn.functional.leaky_relu(scores, 0.2))
        return dgl.ops.u_mul_e_sum(graph.dgl, h, weights)

    contenders: dict[str, Callable[[], Any]] = {ATTENTION: lambda: ptd.attention(graph.index, h, el, er, z), GAT: gat}
    grad = torch.randn_like(h)
    leaves = [h, el, er, z]
    result = {"case": f"attention {heads} x {feats}", "base": ATTENTION, **timed(contenders, leaves, grad, repeats)}
    # Results and gradients take the same memory for all contenders; the rest is extra.
    fixed = 4 * (2 * h.numel() + el.numel() + er.numel())
    for name, run in contenders.items():
        peaks = [peak_bytes(both(run, leaves, grad)) for _ in range(3)]
        result.setdefault("extra_bytes_an_edge", {})[name] = max(0, min(peaks) - fixed) / graph.edges
    return result


def measure(graph: Graph, threads: int, repeats: int) -> list[dict[str, Any]]:
    torch.set_num_threads(threads)
    found = [sums(graph, heads, feats, repeats) for heads, feats in ((1, 50), (1, 121), (1, 256), (4, 64))]
    found.append(attention(graph, 4, 64, repeats))
    return [{**result, "case": f"{graph.name}, {threads} threads, {result['case']}"} for result in found]


def report(results: list[dict[str, Any]]) -> None:
    for result in results:
        print(f"\n{result['case']}: milliseconds (times ours)")
        rows = [["", "forward", "", "forward + backward", "", "extra bytes an edge"]]
        for name in result["forward"]:
            row = [name]
            for part in ("forward", "both"):
                row += [f"{result[part][name]:.1f}", f"{result[part][name] / result[part][result['base']]:.2f}x"]
            extra = result.get("extra_bytes_an_edge", {}).get(name)
            rows.append([*row, "" if extra is None else f"{extra:.0f}"])
        print(table(rows))


def ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    """Our time divided by each other contender's: smaller is better."""
    return {
        f"{result['case']}: {part}: {result['base']} / {name}": result[part][result["base"]] / ms
        for result in results
        for part in ("forward", "both")
        for name, ms in result[part].items()
        if name != result["base"]
    }


def large(repeats: int) -> list[dict[str, Any]]:
    """The time for each edge at 1 M to 100 M edges; F = 16, 28 edges a node, all threads."""
    results = []
    for edges in progress([1_000_000, 10_000_000, 100_000_000]):
        graph = Graph("random", "by destination", edges, edges // 28, with_dgl=False)
        h = torch.randn(graph.nodes, 16, requires_grad=True)
        z = torch.rand(edges, requires_grad=True)
        times = timed({OURS: partial(ptd.aggregate, graph.index, h, z)}, [h, z], torch.randn_like(h), repeats)
        results.append({"edges": edges, **{part: 1e6 * ms[OURS] / edges for part, ms in times.items()}})
        print(f"{edges:>11,} edges: " + ", ".join(f"{k} {results[-1][k]:.2f} ns an edge" for k in times))
    for part in ("forward", "both"):
        print(f"{part}: 100 M / 1 M = {results[-1][part] / results[0][part]:.2f}")
    return results


def plot(results: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5))
    names = [result["case"].rsplit(", ", 1)[1] for result in results]
    for axis, part, title in zip(axes, ("forward", "both"), ("forward", "forward + backward")):
        contenders = list(dict.fromkeys(name for result in results for name in result[part]))
        for k, name in enumerate(contenders):
            heights = [1e6 * result[part].get(name, 0) / EDGES for result in results]
            axis.bar([x + (k - 2) * 0.17 for x in range(len(results))], heights, width=0.17, label=name)
        axis.set(yscale="log", ylabel="ns an edge", title=title)
        axis.set_xticks(range(len(results)), names, fontsize=8)
        axis.grid(alpha=0.3, axis="y")
        axis.legend(fontsize=8)
    figure.suptitle(results[0]["case"].rsplit(", ", 1)[0])
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="power-law graph, all threads")
    parser.add_argument("--large", action="store_true", help="1 M to 100 M edges, nothing else")
    parser.add_argument("--repeats", type=int, default=9, help="rounds a case (default 9)")
    parser.add_argument("--out", type=Path, default=Path("out/aggregate.json"), help="default out/aggregate.json")
    add_comparison(parser)
    args = parser.parse_args()
    if args.large:
        save(args.out.with_name(args.out.stem + "_large.json"), {"machine": machine(), "large": large(args.repeats)})
        return
    cores = torch.get_num_threads()
    cases = [("power law", "shuffled", cores)]
    if not args.quick:
        cases += [("power law", "shuffled", 1), ("power law", "by destination", cores), ("random", "shuffled", cores)]
    results = []
    for kind, order, threads in progress(cases):
        found = measure(Graph(kind, order), threads, args.repeats)
        report(found)
        results += found
    measured = ratios(results)
    save(args.out, {"machine": machine(), "results": results, "ratios": measured})
    plot(results[:5], args.out.with_suffix(".png"))
    if args.compare:
        compare(args.compare, measured, args.slack)


if __name__ == "__main__":
    main()

"""The edge gate against the plain torch code for the same result, and against the memory limit (limit.cpp).

python benchmarks/edge_gate.py                       every case, to out/edge_gate.json and .png
python benchmarks/edge_gate.py --quick               H = 64, random graph, one thread
python benchmarks/edge_gate.py --large               10 M and 100 M edges
python benchmarks/edge_gate.py --compare old.json    and fail if a ratio grew by more than --slack (default 1.25)
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import (
    add_comparison,
    compare,
    compile_native,
    machine,
    medians,
    peak_bytes,
    progress,
    random_edges,
    save,
    table,
)
from torch import Tensor

import dgl_ptdnet as ptd
from dgl_ptdnet.ops import linear_maps

EDGES, NODES, FEATURES = 1_600_000, 57_000, 256
MLP, EAGER, COMPILED, FUSED, LIMIT = "mlp on cat", "factorised", "torch.compile", "edge_gate", "limit"


def gate_of(logit: Tensor) -> Tensor:
    eps = torch.rand_like(logit).clamp(1e-7, 1 - 1e-7)
    s = torch.sigmoid(torch.log(eps) - torch.log(1 - eps) + logit)
    return torch.clamp(s * 1.2 - 0.1, 0, 1)


def mlp_on_cat(x: Tensor, src: Tensor, dst: Tensor, layers: torch.nn.Module) -> Tensor:
    return gate_of(layers(torch.cat([x[src], x[dst]], 1)).squeeze(1))


def factorised(p: Tensor, q: Tensor, w: Tensor, c: Tensor, src: Tensor, dst: Tensor) -> Tensor:
    return gate_of((torch.relu(p[src] + q[dst]) * w).sum(1) + c)


class Limit:
    """The memory limit: for the forward one pass over the edges that only gathers rows, with the backward three."""

    def __init__(self) -> None:
        self.library = compile_native("limit.cpp")
        self.ahead = 16

    def passes(self, count: int, index: ptd.EdgeIndex, p: Tensor, q: Tensor, w: Tensor, out: Tensor) -> None:
        _, in_src, in_dst, in_edge, _, out_pos, _, _ = index.tensors
        sizes = [p.shape[1], len(in_src), self.ahead, torch.get_num_threads()]
        by_dst = (None, in_src, in_dst, p, q)
        for order, other, own, far, near in (by_dst, by_dst, (out_pos, in_dst, in_src, q, p))[:count]:
            pointers = [None if x is None else x.data_ptr() for x in (order, other, own, far, near, w)]
            self.library.limit_pass(
                *(ctypes.c_void_p(x) for x in pointers),
                *(ctypes.c_int64(x) for x in sizes),
                ctypes.c_void_p(in_edge.data_ptr()),
                ctypes.c_void_p(out.data_ptr()),
            )

    def tune(self, *args: Any) -> None:
        times = {}
        for self.ahead in (4, 8, 16, 32, 64):
            times[self.ahead] = medians({"": lambda: self.passes(1, *args)}, 3)[""]
        self.ahead = min(times, key=lambda ahead: times[ahead])


class Case:
    def __init__(
        self, graph: str, order: str, hidden: int, edges: int = EDGES, nodes: int = NODES, device: str = "cpu"
    ) -> None:
        torch.manual_seed(0)
        self.name = f"{graph}, {order}, H={hidden}"
        src, dst = random_edges(edges, nodes, power_law=graph == "power law")
        if order == "by destination":
            place = torch.argsort(dst, stable=True)
            src, dst = src[place], dst[place]
        src, dst = src.to(device), dst.to(device)
        self.src, self.dst, self.hidden, self.edges, self.nodes = src, dst, hidden, edges, nodes
        self.p, self.q = (torch.randn(nodes, hidden, device=device, requires_grad=True) for _ in range(2))
        self.w = (torch.randn(hidden, device=device) / hidden**0.5).requires_grad_()
        self.c = torch.zeros((), device=device, requires_grad=True)
        self.index = ptd.EdgeIndex(src, dst, nodes, nodes)
        self.noise = torch.tensor([1, 2], device=device)
        self.grad = torch.randn(edges, device=device)
        self.out = torch.empty(edges, device=device)

    def fused(self) -> Tensor:
        inputs = (self.src, self.dst, self.p, self.q, self.w, self.c)
        return ptd.edge_gate(*inputs, noise=self.noise, index=self.index)

    def bytes_moved(self) -> dict[str, float]:
        """The bytes that the kernels must at least read and write."""
        rows, mask = 4 * self.hidden, self.hidden / 8
        nodes = self.nodes * rows
        forward = self.edges * (3 * 4 + rows + 4) + nodes  # ids, the source's row, the gate; each destination's row
        both = forward + self.edges * (2 * mask + 8 + 3 * 4 + mask + 2 * 32) + 4 * nodes  # a gather moves a sector
        return {"forward": forward, "both": both}

    def both(self, forward: Callable[[], Tensor]) -> Callable[[], None]:
        def run() -> None:
            forward().backward(self.grad)
            for x in (self.p, self.q, self.w, self.c):
                x.grad = None

        return run

    def contenders(self, limit: Limit, slow: bool) -> tuple[dict[str, Callable], dict[str, Callable]]:
        inputs = (self.p, self.q, self.w, self.c, self.src, self.dst)
        x = torch.randn(self.nodes, FEATURES)
        project = [torch.nn.Linear(FEATURES, self.hidden, bias=side == 0) for side in range(2)]
        maps = [(layer.weight, layer.bias) for layer in project]
        layers = torch.nn.Sequential(
            torch.nn.Linear(2 * FEATURES, self.hidden), torch.nn.ReLU(), torch.nn.Linear(self.hidden, 1)
        )
        compiled = torch.compile(factorised)

        def with_projection() -> Tensor:  # as EdgeGate does it
            p, q = linear_maps(x, maps)
            return ptd.edge_gate(self.src, self.dst, p, q, self.w, self.c, noise=self.noise, index=self.index)

        plain: dict[str, Callable[[], Tensor]] = {
            FUSED: self.fused,
            EAGER: lambda: factorised(*inputs),
            COMPILED: lambda: compiled(*inputs),
        }
        if slow:
            plain |= {MLP: lambda: mlp_on_cat(x, self.src, self.dst, layers), f"{FUSED} + projections": with_projection}
        forward: dict[str, Callable] = {name: torch.no_grad()(run) for name, run in plain.items()}
        backward: dict[str, Callable] = {name: self.both(run) for name, run in plain.items()}
        rows = (self.index, self.p, self.q, self.w, self.out)
        limit.tune(*rows)
        forward[LIMIT] = lambda: limit.passes(1, *rows)
        backward[LIMIT] = lambda: limit.passes(3, *rows)
        forward["index"] = lambda: ptd.EdgeIndex(self.src, self.dst, self.nodes, self.nodes)
        return forward, backward


def run_case(case: Case, limit: Limit, threads: int, repeats: int, slow: bool) -> dict[str, Any]:
    torch.set_num_threads(threads)
    forward, backward = case.contenders(limit, slow)
    result: dict[str, Any] = {"case": f"{case.name}, {threads} threads", "hidden": case.hidden, "edges": case.edges}
    result["forward"] = medians(forward, repeats, rare=[MLP])
    result["both"] = medians(backward, repeats, rare=[MLP])
    result["bytes_an_edge"] = peak_bytes(case.both(case.fused)) / case.edges
    return result


def report(results: list[dict[str, Any]]) -> None:
    for result in results:
        print(f"\n{result['case']}: milliseconds (times edge_gate's); {result['bytes_an_edge']:.1f} bytes an edge")
        rows = [["", "forward", "", "forward + backward", ""]]
        for name in result["forward"]:
            row = [name]
            for part in ("forward", "both"):
                ms, base = result[part].get(name), result[part][FUSED]
                row += ["", ""] if ms is None else [f"{ms:.1f}", f"{ms / base:.2f}x"]
            rows.append(row)
        print(table(rows))


def ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    """Our time divided by each other contender's: smaller is better."""
    found = {}
    for result in results:
        for part in ("forward", "both"):
            times = result[part]
            for name in set(times) - {FUSED, "index"}:
                found[f"{result['case']}: {part}: {FUSED} / {name}"] = times[FUSED] / times[name]
    return found


def plot(results: list[dict[str, Any]], scaling: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 4.5))
    by_hidden = [r for r in results if r["case"].startswith("random, shuffled") and r["case"].endswith(", 1 threads")]
    for axis, runs, key, label in ((axes[0], scaling, "edges", "edges"), (axes[1], by_hidden, "hidden", "H")):
        for name in (MLP, EAGER, COMPILED, FUSED, LIMIT):
            points = sorted((r[key], 1e6 * r["both"][name] / r["edges"]) for r in runs if name in r["both"])
            if points:
                axis.plot(*zip(*points), marker="o", label=name)
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="ns an edge, forward + backward, one thread")
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0].set_title("H = 64, 28 edges a node")
    axes[1].set_title("1.6 M edges")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


def on_gpu(device: str, repeats: int) -> list[dict[str, Any]]:
    """The time of the operator alone, and its bandwidth as a share of a copy's."""
    block = torch.empty(2**28, device=device)
    copy = medians({"": lambda: block.clone()}, repeats)[""]
    bandwidth = 2 * block.numel() * 4 / copy
    results = []
    for hidden in (1, 16, 64, 128):
        case = Case("random", "by destination", hidden, device=device)
        times = medians({"forward": torch.no_grad()(case.fused), "both": case.both(case.fused)}, repeats)
        shares = {k: v / times[k] / bandwidth for k, v in case.bytes_moved().items()}
        results.append({"hidden": hidden, "ms": times, "bandwidth_share": shares})
        print(
            f"H={hidden}: " + ", ".join(f"{k} {v:.3f} ms, {shares[k]:.0%} of the bandwidth" for k, v in times.items())
        )
    return results


def large(repeats: int) -> list[dict[str, Any]]:
    """The time for each edge at 10 M and 100 M edges; H = 16, 28 edges a node, all threads."""
    results = []
    for edges in (10_000_000, 100_000_000):
        case = Case("random", "by destination", 16, edges, edges // 28)
        run = {"forward": torch.no_grad()(case.fused), "both": case.both(case.fused)}
        times = medians(run, repeats)
        results.append({"edges": edges, **{k: 1e6 * v / edges for k, v in times.items()}})
        print(f"{edges:>11,} edges: " + ", ".join(f"{k} {1e6 * v / edges:.2f} ns an edge" for k, v in times.items()))
        del case, run
    for part in ("forward", "both"):
        print(f"{part}: 100 M / 10 M = {results[1][part] / results[0][part]:.2f}")
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="H = 64, random graph, one thread")
    parser.add_argument("--large", action="store_true", help="10 M and 100 M edges, nothing else")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default cpu)")
    parser.add_argument("--repeats", type=int, default=7, help="rounds a case (default 7)")
    parser.add_argument("--out", type=Path, default=Path("out/edge_gate.json"), help="default out/edge_gate.json")
    add_comparison(parser)
    args = parser.parse_args()
    if args.device != "cpu":
        if not torch.cuda.is_available():
            parser.error("--device cuda: torch sees no GPU")
        found = {"machine": machine(), "gpu": on_gpu(args.device, args.repeats)}
        save(args.out.with_name(args.out.stem + "_gpu.json"), found)
        return
    if args.large:
        save(args.out.with_name(args.out.stem + "_large.json"), {"machine": machine(), "large": large(args.repeats)})
        return
    limit, cores = Limit(), torch.get_num_threads()
    cases = [("random", order, 64, 1) for order in ("shuffled", "by destination")]
    if not args.quick:
        cases = [
            (graph, order, hidden, threads)
            for hidden in (64, 1, 16, 128)
            for graph, order in (("random", "shuffled"), ("random", "by destination"), ("power law", "shuffled"))
            for threads in sorted({1, cores})
            if order == "shuffled" or hidden == 64
        ]
    results: list[dict[str, Any]] = []
    scaling: list[dict[str, Any]] = []

    def keep() -> dict[str, float]:  # called after every case, so that a run that is stopped loses nothing
        found = ratios(results)
        save(args.out, {"machine": machine(), "results": results, "scaling": scaling, "ratios": found})
        return found

    for graph, order, hidden, threads in progress(cases):
        case = Case(graph, order, hidden)
        results.append(run_case(case, limit, threads, args.repeats, slow=order == "shuffled"))
        report(results[-1:])
        keep()
    if not args.quick:
        for edges in progress([100_000, 400_000, 1_600_000, 6_400_000]):
            case = Case("random", "shuffled", 64, edges, edges // 28)
            scaling.append(run_case(case, limit, 1, min(3, args.repeats), slow=edges <= 400_000))
    measured = keep()
    plot(results, scaling or results, args.out.with_suffix(".png"))
    if args.compare:
        compare(args.compare, measured, args.slack)


if __name__ == "__main__":
    main()

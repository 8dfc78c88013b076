"""The low-rank term against the authors' dense algorithm, torch.svd_lowrank and scipy's svds: time, error, memory.

python benchmarks/low_rank.py --data-dir DIR           Cora, Pubmed and PPI, to out/low_rank.json and .png
python benchmarks/low_rank.py --datasets cora          some of them
python benchmarks/low_rank.py --compare old.json       and fail if a ratio grew by more than --slack (default 1.25)
python benchmarks/low_rank.py --communities            what a gate learns from the term alone, to docs/low_rank.png

DIR is in DGL's raw layout; without it DGL downloads the data. A step makes value and gradient for new gates. Warm steps
start from the result of the step before: each step moves the gates' logits by about 0.05, and "drawn" also draws new
noise, as PTDNet's training does. For the other contenders our fused kernel makes the gradients from their singular
vectors; for the authors' dense algorithm autograd does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from common import HERE, add_comparison, compare, machine, medians, peak_bytes, progress, save, table
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds
from torch import Tensor

import dgl_ptdnet as ptd
from dgl_ptdnet._dgl import dgl
from dgl_ptdnet.data import load, planted
from dgl_ptdnet.graph import edges_of
from dgl_ptdnet.studies.rank_k import dense_norm

WARM, DRAWN, COLD, POWER = "warm", "drawn", "cold", "power, warm"
DENSE, LOWRANK, SVDS = "authors' dense", "torch.svd_lowrank", "scipy svds"
WIDE, NARROW = "GraphConv(256, 256)", "GraphConv(50, 256)"
DENSE_NODES = 5_000
STEPS = 16


class Graph:
    """A graph in the form of every contender, with everything that is made once for each graph."""

    def __init__(self, name: str, data_dir: Path | None) -> None:
        graphs = load(name, data_dir).graphs
        self.name, self.dgl = name, dgl.batch(graphs) if len(graphs) > 1 else graphs[0]
        self.dgl.create_formats_()
        self.index = edges_of(self.dgl).index
        self.nodes, self.edges = self.index.num_src, self.index.num_edges
        _, _, _, _, out_ptr, _, out_dst, out_edge = self.index.tensors
        self.csr = (out_dst.numpy(), out_ptr.numpy())
        self.order = out_edge.long()
        self.place = torch.stack([self.index.src, self.index.dst])[:, self.order]

    def scipy(self, z: Tensor) -> Any:
        return csr_matrix((z.detach()[self.order].numpy(), *self.csr), (self.nodes, self.nodes))

    def norm(self, z: Tensor, k: int) -> float:
        return float(svds(self.scipy(z.double()), k=k, tol=1e-6, return_singular_vectors=False).sum())

    def gates(self, drawn: bool) -> list[Tensor]:
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(self.edges, generator=generator) + 1
        found = []
        for _ in range(STEPS):
            logits = logits + 0.05 * torch.randn(self.edges, generator=generator)
            uniform = torch.rand(self.edges, generator=generator).clamp(1e-6, 1 - 1e-6)
            noise = torch.log(uniform) - torch.log1p(-uniform) if drawn else 0
            found.append((torch.sigmoid(logits + noise) * 1.2 - 0.1).clamp(0, 1).requires_grad_())
        return found if drawn else found + found[-2:0:-1]  # forth and back, so that no step is large


class Steps:
    """Makes value and gradient for one set of gates after the other; remembers the last gates and value."""

    def __init__(self, gates: list[Tensor], run: Callable[[Tensor], tuple[Tensor | float, Tensor | None]]) -> None:
        self.gates, self.run = cycle(gates), run
        self.value, self.z = 0.0, gates[0]

    def __call__(self) -> None:
        self.z = next(self.gates)
        value, gradient = self.run(self.z)
        if gradient is None:
            assert isinstance(value, Tensor)
            value.backward()
        self.value = float(value.detach() if isinstance(value, Tensor) else value)
        self.z.grad = None


def rivals(graph: Graph, k: int) -> dict[str, Callable[[Tensor], tuple[Tensor | float, Tensor | None]]]:
    def by_scipy(z: Tensor) -> tuple[float, Tensor]:
        u, values, vh = svds(graph.scipy(z), k=k)
        return float(values.sum()), ptd.edge_dot(graph.index, torch.from_numpy(u.copy()), torch.from_numpy(vh.T.copy()))

    def by_torch(z: Tensor) -> tuple[Tensor, Tensor]:
        size = (graph.nodes, graph.nodes)
        with torch.no_grad():
            gates = z[graph.order]
            matrix = torch.sparse_coo_tensor(graph.place, gates, size, is_coalesced=True, check_invariants=False)
            u, values, v = torch.svd_lowrank(matrix, q=k + 8, niter=2)
        return values[:k].sum(), ptd.edge_dot(graph.index, u[:, :k], v[:, :k])

    return {LOWRANK: by_torch, SVDS: by_scipy}


def conv_step(graph: Graph, feats: int) -> Callable[[], None]:
    conv = dgl.nn.GraphConv(feats, 256, allow_zero_in_degree=True)
    h = torch.randn(
        graph.nodes, feats, requires_grad=feats == 256
    )  # a hidden layer's input has a gradient, data has none
    grad = torch.randn(graph.nodes, 256)

    def run() -> None:
        conv(graph.dgl, h).backward(grad)
        conv.zero_grad()
        h.grad = None

    return run


def measure(graph: Graph, k: int, repeats: int) -> dict[str, Any]:
    wander, drawn = graph.gates(False), graph.gates(True)

    def ours(rank: ptd.LowRank) -> Callable[[Tensor], tuple[Tensor, None]]:
        return lambda z: (rank(graph.index, z), None)

    large = graph.edges > 1_000_000
    ranks = {WARM: ptd.LowRank(k), DRAWN: ptd.LowRank(k), POWER: ptd.LowRank(k, method="power")}
    contenders: dict[str, Any] = {
        WARM: Steps(wander, ours(ranks[WARM])),
        DRAWN: Steps(drawn, ours(ranks[DRAWN])),
        COLD: Steps(wander, lambda z: (ptd.LowRank(k)(graph.index, z), None)),
        **({} if large else {POWER: Steps(wander, ours(ranks[POWER]))}),
        **{name: Steps(wander, run) for name, run in rivals(graph, k).items()},
    }
    for name in (WARM, DRAWN):
        for _ in range(5):
            contenders[name]()
    convs = {WIDE: conv_step(graph, 256), NARROW: conv_step(graph, 50)} if graph.name == "ppi" else {}
    result: dict[str, Any] = {
        "case": f"{graph.name}, K={k}",
        "ms": medians({**contenders, **convs}, repeats, [SVDS] if large else []),
    }
    result["error"] = {name: 1 - steps.value / graph.norm(steps.z, k) for name, steps in contenders.items()}
    result["sweeps"] = {name: rank.sweeps for name, rank in ranks.items()}
    result["bytes"] = {name: peak_bytes(run) for name, run in {**contenders, **convs}.items()}
    if graph.nodes <= DENSE_NODES:
        steps = Steps(wander, lambda z: (dense_norm(graph.index.src, graph.index.dst, graph.nodes, z, k), None))
        begin = time.perf_counter()
        result["bytes"][DENSE] = peak_bytes(steps)
        result["ms"][DENSE] = 1e3 * (time.perf_counter() - begin)
        result["error"][DENSE] = 1 - steps.value / graph.norm(steps.z, k)
    return result


def report(result: dict[str, Any]) -> None:
    print(f"\n{result['case']}: milliseconds (times warm), error of the value, sweeps, peak memory")
    rows = [["", "ms", "", "error", "sweeps", "MB"]]
    for name, ms in result["ms"].items():
        error, sweeps, size = (result[field].get(name) for field in ("error", "sweeps", "bytes"))
        rows.append([name, f"{ms:.2f}", f"{ms / result['ms'][WARM]:.1f}x", "" if error is None else f"{error:.0e}"])
        rows[-1] += ["" if sweeps is None else str(sweeps), "" if size is None else f"{size / 2**20:.1f}"]
    print(table(rows))


def ratios(results: list[dict[str, Any]]) -> dict[str, float]:
    """Our times divided by each other contender's: smaller is better."""
    return {
        f"{result['case']}: {name} / {other}": result["ms"][name] / ms
        for result in results
        for name in (WARM, DRAWN, COLD)
        for other, ms in result["ms"].items()
        if other not in (WARM, DRAWN, COLD, POWER)
    }


def plot(results: list[dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(result["case"].split(", ")[0] for result in results))
    figure, axes = plt.subplots(1, len(names), figsize=(4.5 * len(names), 4), squeeze=False)
    for axis, name in zip(axes[0], names):
        mine = [result for result in results if result["case"].startswith(name)]
        for contender in dict.fromkeys(key for result in mine for key in result["ms"]):
            points = [(int(r["case"].split("=")[1]), r["ms"][contender]) for r in mine if contender in r["ms"]]
            axis.plot(*zip(*points), "o-", label=contender)
        axis.set(xscale="log", yscale="log", xlabel="K", title=name)
        axis.set_xticks([1, 4, 16, 32], ["1", "4", "16", "32"])
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("milliseconds a step")
    axes[0][-1].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


def closing(k: int) -> Iterator[tuple[float, float]]:
    """Trains one gate for each pair of nodes on the low-rank term alone, until the mean gate is 0.1.

    Yields, at each step, the mean gate and the share of the gates' sum on edges between communities.
    """
    g = planted(num_nodes=100, num_pairs=500).graph
    src, dst = g.edges()
    cross = g.ndata["label"][src] != g.ndata["label"][dst]
    pairs = torch.stack([torch.minimum(src, dst), torch.maximum(src, dst)]).unique(dim=1, return_inverse=True)[1]
    logits = torch.full((500,), 2.0, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=1.0)
    rank, mean = ptd.LowRank(k), 1.0
    while mean > 0.1:
        z = (torch.sigmoid(logits) * 1.2 - 0.1).clamp(0, 1)[pairs]
        mean = z.mean().item()
        yield mean, (z[cross].sum() / z.sum()).item()
        optimizer.zero_grad()
        rank(g, z).backward()
        optimizer.step()


def communities(path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.5, 3.4))
    rows = [["K", "all open", "3/4", "1/2", "1/4"]]
    for k in (5, 16, 32, 64, 100):
        curve = list(closing(k))
        axis.plot(*zip(*curve), label=f"K = {k}")
        at = [next(share for mean, share in curve if mean <= level) for level in (1, 0.75, 0.5, 0.25)]
        rows.append([str(k), *(f"{share:.3f}" for share in at)])
    axis.set(xlabel="mean gate", ylabel="share between communities", xlim=(1, 0.1), ylim=(0.1, 0.35))
    axis.axhline(0.21, color="black", linewidth=0.8, linestyle=":")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=90)
    print(f"{table(rows)}\nwrote {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with DGL's raw folders")
    parser.add_argument("--datasets", nargs="+", default=["cora", "pubmed", "ppi"], help="default cora pubmed ppi")
    parser.add_argument("--repeats", type=int, default=9, help="rounds a case (default 9)")
    parser.add_argument("--out", type=Path, default=Path("out/low_rank.json"), help="default out/low_rank.json")
    add_comparison(parser)
    parser.add_argument("--communities", action="store_true", help="only what a gate learns from the term alone")
    args = parser.parse_args()
    if args.communities:
        communities(HERE.parent / "docs" / "low_rank.png")
        return
    results = []
    for name in progress(args.datasets):
        graph = Graph(name, args.data_dir)
        for k in (1, 4, 8, 16, 32) if name == "ppi" else (1, 4, 16, 32):
            results.append(measure(graph, k, args.repeats))
            report(results[-1])
    measured = ratios(results)
    save(args.out, {"machine": machine(), "results": results, "ratios": measured})
    plot(results, args.out.with_suffix(".png"))
    if args.compare:
        compare(args.compare, measured, args.slack)


if __name__ == "__main__":
    main()

"""Two denoised layers against the same plain DGL layers, on PPI's training graphs: time and peak memory.

python benchmarks/layers.py --data-dir DIR         DIR in DGL's raw layout; without it DGL downloads PPI
python benchmarks/layers.py --generated            a random graph of PPI's size, without data
python benchmarks/layers.py --compare old.json     and fail if a ratio grew by more than --slack (default 1.25)

A step is forward and backward of two layers (50 features -> 256 -> 121 labels), for all graphs at once, with all
threads. The gated model's step includes the penalty's gradient. Results go to out/layers.json.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from common import add_comparison, compare, machine, medians, peak_bytes, progress, random_edges, save, table
from torch import Tensor, nn

import dgl_ptdnet as ptd
from dgl_ptdnet._dgl import dgl

FEATURES, HIDDEN, LABELS, HEADS = 50, 256, 121, 4
LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    "GraphConv": lambda size, out: dgl.nn.GraphConv(size, out),
    "SAGEConv mean": lambda size, out: dgl.nn.SAGEConv(size, out, "mean"),
    "GATConv 4 x 64": lambda size, out: dgl.nn.GATConv(size, HIDDEN // HEADS if out == HIDDEN else out, HEADS),
}


class Model(nn.Module):
    def __init__(self, make: Callable[[int, int], nn.Module], gate_hidden: int = 0) -> None:
        super().__init__()
        self.layers = nn.ModuleList([make(FEATURES, HIDDEN), make(HIDDEN, LABELS)])
        self.gated = gate_hidden > 0
        if self.gated:
            ptd.denoise(self, lambda size: ptd.EdgeGate(size, gate_hidden))

    def forward(self, g: Any, x: Tensor) -> Tensor:
        h = torch.relu(self.layers[0](g, x).flatten(1))
        out = self.layers[1](g, h)
        return out.mean(1) if out.dim() == 3 else out

    def step(self, g: Any, x: Tensor) -> None:
        loss = self(g, x).square().mean()
        if self.gated:
            loss = loss + ptd.penalty(self, edges=1e-3 / g.num_edges())
        loss.backward()
        self.zero_grad()


def ppi(data_dir: Path | None) -> tuple[Any, Tensor]:
    from dgl_ptdnet.data import load

    graphs = [g for g in load("ppi", data_dir).graphs if g.ndata["train_mask"].any()]
    g = dgl.batch(graphs)
    return g, g.ndata["feat"]


def generated() -> tuple[Any, Tensor]:
    src, dst = random_edges(1_226_368, 44_906, power_law=True)
    return dgl.add_self_loop(dgl.graph((src, dst), num_nodes=44_906)), torch.randn(44_906, FEATURES)


def run_case(name: str, g: Any, x: Tensor, repeats: int) -> dict[str, Any]:
    torch.manual_seed(0)
    models = {"DGL": Model(LAYERS[name]), **{f"gates, H = {h}": Model(LAYERS[name], h) for h in (16, 64)}}
    steps: dict[str, Callable[[], Any]] = {key: partial(model.step, g, x) for key, model in models.items()}
    result: dict[str, Any] = {"case": name, "ms": medians(steps, repeats)}
    result["peak_mb"] = {key: min(peak_bytes(step) for _ in range(3)) / 2**20 for key, step in steps.items()}
    return result


def report(result: dict[str, Any]) -> None:
    print(f"\n{result['case']}: two layers, forward and backward")
    rows = [["", "ms", "", "peak MB", ""]]
    for key in result["ms"]:
        row = [key]
        for part in ("ms", "peak_mb"):
            row += [f"{result[part][key]:.0f}", f"{result[part][key] / result[part]['DGL']:.2f}x"]
        rows.append(row)
    print(table(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, help="folder with PPI in DGL's raw layout")
    parser.add_argument("--generated", action="store_true", help="a random graph of PPI's size")
    parser.add_argument("--repeats", type=int, default=7, help="rounds a case (default 7)")
    parser.add_argument("--out", type=Path, default=Path("out/layers.json"), help="default out/layers.json")
    add_comparison(parser)
    args = parser.parse_args()
    g, x = generated() if args.generated else ppi(args.data_dir)
    print(f"{g.num_nodes():,} nodes, {g.num_edges():,} edges, {torch.get_num_threads()} threads")
    g.create_formats_()
    results = []
    for name in progress(list(LAYERS)):
        results.append(run_case(name, g, x, args.repeats))
        report(results[-1])
    ratios = {
        f"{result['case']}: {part}: {key} / DGL": value / result[part]["DGL"]
        for result in results
        for part in ("ms", "peak_mb")
        for key, value in result[part].items()
        if key != "DGL"
    }
    save(args.out, {"machine": machine(), "results": results, "ratios": ratios})
    if args.compare:
        compare(args.compare, ratios, args.slack)


if __name__ == "__main__":
    main()

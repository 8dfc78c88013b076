"""Basic against PTDNet on the paper's synthetic graph, where half of the edges join nodes of different labels.

Trains a GCN without gates, with PTDNet's and with those of ptdnet-plus, each with several seeds: a graph, a split and
weights of their own. Settings are the package's defaults, found by searches of equal budget on validation. Prints the
test accuracy and the gates of good edges (same label) and bad ones (different labels), and draws how the gates moved.
Runs and picture go to out/demo, which is made anew.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from dgl_ptdnet.train import Result, load_run, resolve, train

OUT = Path("out/demo")
METHODS = {"basic": "GCN", "ptdnet": "GCN with PTDNet", "ptdnet-plus": "GCN with PTDNet+"}


def mean_gates(folder: Path, seed: int) -> list[float]:
    """Of good and bad edges into training nodes, then of good and bad edges into test nodes; over both layers."""
    (g,) = load_run(folder, seed).denoised(threshold=-1)  # all edges, with their gates
    src, dst = g.edges()
    same, gate = g.ndata["label"][src] == g.ndata["label"][dst], g.edata["gate"].mean(1)
    nodes = (g.ndata["train_mask"], g.ndata["test_mask"])
    return [float(gate[mask[dst] & edges].mean()) for mask in nodes for edges in (same, ~same)]


def draw(results: dict[str, Result], path: Path) -> None:
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    for (method, result), axes in zip(results.items(), figure.subplots(1, len(results), sharey=True)):
        histories = [seed.history for seed in result.seeds]
        for name, color, label in (("gate_same", "C0", "good edges"), ("gate_other", "C3", "bad edges")):
            for layer, style in enumerate(("-", "--")):
                rows = zip(*([getattr(row, name)[layer] for row in history] for history in histories))
                values = [statistics.fmean(row) for row in rows]
                axes.plot(values, style, color=color, label=f"{label}, layer {layer + 1}")
        axes.set(title=METHODS[method], xlabel="epoch", ylim=(-0.02, 1.02))
    axes.legend()
    figure.axes[0].set_ylabel("mean gate")
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10, help="how many (default 10)")
    seeds, begin = parser.parse_args().seeds, time.perf_counter()
    shutil.rmtree(OUT, ignore_errors=True)
    gated: dict[str, Any] = {}
    print(f"{'':18}{'test accuracy':>16}{'gates at training nodes':>28}{'at test nodes':>20}")
    print(f"{'':18}{'':16}{'good':>20}{'bad':>8}{'good':>12}{'bad':>8}")
    for method, name in METHODS.items():
        result = train(resolve(dataset="synthetic", method=method, seeds=seeds), out=OUT / method)
        print(f"{name:18}{result.metrics.mean:9.3f} ± {result.metrics.std:.3f} ", end="")
        if method != "basic":
            gated[method] = result
            rows = [mean_gates(OUT / method, seed) for seed in range(seeds)]
            print("{:20.2f}{:8.2f}{:12.2f}{:8.2f}".format(*map(statistics.fmean, zip(*rows))), end="")
        print(flush=True)
    draw(gated, OUT / "gates.png")
    print(f"{seeds} seeds, {time.perf_counter() - begin:.0f} s; the gates over the epochs: {OUT / 'gates.png'}")


if __name__ == "__main__":
    main()

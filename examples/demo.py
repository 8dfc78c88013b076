"""The gate at work on a generated graph: it learns to close the noisy edges.

Two communities of nodes; most edges stay inside one, the noisy ones join the two. Labels are known for half of the
nodes. A node's prediction is the gated mean of its neighbours' scores, and the gate is learned with it by the task
alone. Prints the gates of clean and noisy edges before and after, and writes them as a picture to out/demo.png.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import Tensor
from tqdm import trange

import dgl_ptdnet as ptd

NODES, EDGES, NOISE_SHARE, FEATURES, HIDDEN, STEPS = 4_000, 80_000, 0.4, 16, 32, 150


def make_graph(generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """src, dst, node features and labels. Features are a weak hint at the label."""
    label = torch.arange(NODES) % 2
    src = torch.randint(0, NODES, (EDGES,), generator=generator)
    other = torch.rand(EDGES, generator=generator) < NOISE_SHARE
    dst = torch.randint(0, NODES // 2, (EDGES,), generator=generator) * 2 + (label[src] ^ other.long())
    centers = torch.randn(2, FEATURES, generator=generator)
    return src, dst, centers[label] * 0.5 + torch.randn(NODES, FEATURES, generator=generator), label


class GatedMean(torch.nn.Module):
    """A linear layer, then the mean of the neighbours weighted by a learned gate."""

    def __init__(self, index: ptd.EdgeIndex) -> None:
        super().__init__()
        self.index = index
        self.score = torch.nn.Linear(FEATURES, 2)
        self.project = torch.nn.Linear(FEATURES, 2 * HIDDEN)
        self.w = torch.nn.Parameter(torch.randn(HIDDEN) / HIDDEN**0.5)
        self.c = torch.nn.Parameter(torch.tensor(1.0))  # starts open

    def gates(self, x: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        p, q = self.project(x).chunk(2, 1)
        inputs = (self.index.src, self.index.dst, p, q, self.w, self.c)
        return ptd.edge_gate(*inputs, noise=noise, index=self.index, penalty=True)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        src, dst = self.index.src, self.index.dst
        total = torch.zeros(len(x), 2).index_add(0, dst, z[:, None] * self.score(x)[src])
        return total / torch.zeros(len(x)).index_add(0, dst, z).clamp(min=1e-6)[:, None]


def plot(before: Tensor, after: Tensor, noisy: Tensor, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 3.5), sharey=True)
    for axis, z, title in zip(axes, (before, after), ("before", "after training")):
        for edges, name in ((~noisy, "clean edges"), (noisy, "noisy edges")):
            axis.hist(z[edges].numpy(), bins=40, range=(0, 1), alpha=0.6, label=name)
        axis.set(title=title, xlabel="gate")
        axis.legend()
    axes[0].set_ylabel("edges")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    src, dst, x, label = make_graph(generator)
    noisy = label[src] != label[dst]
    train = torch.rand(NODES, generator=generator) < 0.5
    model = GatedMean(ptd.EdgeIndex(src, dst, NODES, NODES))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    @torch.no_grad()
    def evaluate() -> tuple[Tensor, float]:
        z, _ = model.gates(x, None)
        right = model(x, z).argmax(1) == label
        return z, right[~train].float().mean().item()

    before, _ = evaluate()
    begin = time.perf_counter()
    for step in trange(STEPS, desc="training", disable=not sys.stderr.isatty()):
        z, kept = model.gates(x, torch.tensor([0, step]))
        loss = torch.nn.functional.cross_entropy(model(x, z)[train], label[train]) + 0.01 * kept / EDGES
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - begin
    after, accuracy = evaluate()
    plain = (model(x, torch.ones(EDGES)).argmax(1) == label)[~train].float().mean().item()

    print(f"{NODES:,} nodes, {EDGES:,} edges, {noisy.float().mean():.0%} of them noisy; {seconds:.1f} s of training")
    print(f"{'':24}{'before':>10}{'after':>10}")
    for name, edges in (("mean gate, clean edges", ~noisy), ("mean gate, noisy edges", noisy)):
        print(f"{name:24}{before[edges].mean():>10.2f}{after[edges].mean():>10.2f}")
    for name, edges in (("closed, clean edges", ~noisy), ("closed, noisy edges", noisy)):
        print(f"{name:24}{(before[edges] == 0).float().mean():>10.0%}{(after[edges] == 0).float().mean():>10.0%}")
    print(f"accuracy at unseen nodes: {plain:.3f} with every edge open, {accuracy:.3f} with the learned gates")
    path = Path("out/demo.png")
    plot(before, after, noisy, path)
    print(f"the gates as a picture: {path}")


if __name__ == "__main__":
    main()

"""Node classification with PTDNet: two denoised GraphConv layers on a graph in which half of the edges mislead."""

import dgl
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import dgl_ptdnet as ptd
from dgl_ptdnet.data import synthetic


class GCN(nn.Module):
    def __init__(self, in_feats: int, hidden: int, classes: int) -> None:
        super().__init__()
        options: dict = {"hidden": 32, "symmetric": True, "normalize": True}
        self.first = ptd.Denoised(dgl.nn.GraphConv(in_feats, hidden), ptd.EdgeGate(in_feats, **options))
        self.second = ptd.Denoised(dgl.nn.GraphConv(hidden, classes), ptd.EdgeGate(hidden, **options))
        self.dropout = nn.Dropout(0.5)

    def forward(self, g: dgl.DGLGraph, x: torch.Tensor) -> torch.Tensor:
        h = torch.relu(self.first(g, self.dropout(x)))
        return self.second(g, self.dropout(h))


torch.manual_seed(0)
data = synthetic(seed=0)
g = dgl.add_self_loop(data.graph)
x, label = g.ndata["feat"], g.ndata["label"]
train, val, test = (g.ndata[f"{name}_mask"] for name in ("train", "val", "test"))

model = GCN(data.num_feats, 64, data.num_classes)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
best = (0.0, 0.0)
for epoch in range(100):
    model.train()
    ptd.set_temperature(model, ptd.temperature(epoch, start=1.0, minimum=0.5))
    loss = cross_entropy(model(g, x)[train], label[train])
    loss = loss + ptd.penalty(model, edges=0.1 / g.num_edges(), rank=1e-4)  # fewer edges, lower rank
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    model.eval()
    with torch.no_grad():
        right = (model(g, x).argmax(1) == label).float()
    if right[val].mean() > best[0]:  # chosen on validation
        best = right[val].mean().item(), right[test].mean().item()

print(f"test accuracy {best[1]:.3f}")
src, dst = g.edges()
same = label[src] == label[dst]
for name, z in ptd.gates(model).items():
    print(f"{name}: mean gate {z[same].mean():.2f} of edges with one label, {z[~same].mean():.2f} of the others")
small = ptd.prune(g, model.first.gate, x, threshold=0.5)
print(f"{small.num_edges():,} of {g.num_edges():,} edges stay at a threshold of 0.5")

"""A model that exists already, with a gate in each of its convolutions by one line."""

import logging

import dgl
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import dgl_ptdnet as ptd
from dgl_ptdnet.data import synthetic


class Existing(nn.Module):
    """Knows nothing of gates."""

    def __init__(self, in_feats: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([dgl.nn.GATConv(in_feats, 8, num_heads=4), dgl.nn.SAGEConv(32, classes, "mean")])

    def forward(self, g: dgl.DGLGraph, x: torch.Tensor) -> torch.Tensor:
        return self.layers[1](g, torch.relu(self.layers[0](g, x).flatten(1)))


logging.basicConfig(format="%(message)s")
logging.getLogger("dgl_ptdnet").setLevel(logging.INFO)  # says what was denoised
torch.manual_seed(0)
data = synthetic(seed=0)
g = dgl.add_self_loop(data.graph)
x, label, train, test = (g.ndata[name] for name in ("feat", "label", "train_mask", "test_mask"))

model = ptd.denoise(Existing(data.num_feats, data.num_classes))

optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(50):
    loss = cross_entropy(model(g, x)[train], label[train]) + ptd.penalty(model, edges=1e-3 / g.num_edges())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

model.eval()
accuracy = (model(g, x).argmax(1) == label)[test].float().mean()
print(f"test accuracy {accuracy:.3f}; kept edges by layer:")
for name, z in ptd.gates(model).items():
    print(f"  {name}: {(z > 0).float().mean():.0%}")

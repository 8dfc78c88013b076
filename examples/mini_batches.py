"""Training by mini-batches: DGL's neighbour sampler gives blocks, and an edge has its draw in every block."""

import dgl
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import dgl_ptdnet as ptd
from dgl_ptdnet.data import random_graph

torch.manual_seed(0)
data = random_graph(num_nodes=5_000, num_edges=60_000, num_feats=16, num_classes=4)
g = data.graph
train, test = (g.ndata[f"{name}_mask"].nonzero().flatten() for name in ("train", "test"))

layers = nn.ModuleList(
    [
        ptd.Denoised(dgl.nn.SAGEConv(data.num_feats, 32, "mean"), ptd.EdgeGate(data.num_feats, hidden=16)),
        ptd.Denoised(dgl.nn.SAGEConv(32, data.num_classes, "mean"), ptd.EdgeGate(32, hidden=16)),
    ]
)


def forward(blocks: list, x: torch.Tensor) -> torch.Tensor:
    for depth, (layer, block) in enumerate(zip(layers, blocks)):
        x = layer(block, x if depth == 0 else torch.relu(x))  # a block is a graph like any other
    return x


sampler = dgl.dataloading.NeighborSampler([10, 10], prefetch_node_feats=["feat"], prefetch_labels=["label"])
loader = dgl.dataloading.DataLoader(g, train, sampler, batch_size=512, shuffle=True)
optimizer = torch.optim.Adam(layers.parameters(), lr=0.01)
for epoch in range(5):
    layers.train()
    for _, _, blocks in loader:
        out = forward(blocks, blocks[0].srcdata["feat"])
        edges = sum(block.num_edges() for block in blocks)
        loss = cross_entropy(out, blocks[-1].dstdata["label"]) + ptd.penalty(layers, edges=1e-3 / edges)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")

layers.eval()
with torch.no_grad():  # on the whole graph: a gate is the same there
    right = forward([g, g], g.ndata["feat"]).argmax(1) == g.ndata["label"]
print(f"test accuracy {right[test].float().mean():.3f}")

"""A DGL training script becomes ptdnet-plus by four lines, marked with "# +": its gates know which edges look wrong.

python examples/denoise_a_script.py
"""

import dgl
import torch
from torch.nn.functional import cross_entropy, dropout

import dgl_ptdnet as ptd
from dgl_ptdnet.data import add_noise_edges, planted


class GCN(torch.nn.Module):
    def __init__(self, in_feats, hidden, classes):
        super().__init__()
        self.first, self.second = dgl.nn.GraphConv(in_feats, hidden), dgl.nn.GraphConv(hidden, classes)

    def forward(self, g, x):
        return self.second(g, dropout(torch.relu(self.first(g, x)), 0.5, self.training))


torch.manual_seed(0)
data = planted(num_classes=20, cross=0.1, spread=1.5)
g = dgl.add_self_loop(add_noise_edges(data.graph, 15_000))  # three edges of four join random nodes
x, label, train, val, test = (g.ndata[name] for name in ("feat", "label", "train_mask", "val_mask", "test_mask"))
model, best = GCN(data.num_feats, 32, data.num_classes), (0.0, 0.0)
denoiser = ptd.Denoiser(g, x, label, train)  # +
ptd.denoise(model, denoiser)  # +
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(150):
    model.train()
    loss = cross_entropy(model(g, x)[train], label[train])
    loss = loss + denoiser.loss()  # +
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        out = model(g, x)
    denoiser.step(out.softmax(1))  # +
    right = (out.argmax(1) == label).float()
    if right[val].mean() > best[0]:
        best = right[val].mean().item(), right[test].mean().item()
print(f"test accuracy {best[1]:.3f}")

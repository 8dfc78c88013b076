"""Networks and the gates on their edges."""

import dgl
import pytest
import torch
from runs import settings, small, trainer
from torch.nn import functional

from dgl_ptdnet.data import synthetic
from dgl_ptdnet.sparse import SparseRows
from dgl_ptdnet.train import GNN, resolve, train
from dgl_ptdnet.train.models import build
from dgl_ptdnet.train.settings import BACKBONES
from dgl_ptdnet.train.tasks import with_loops


@pytest.mark.parametrize("backbone", BACKBONES)
def test_basic_is_the_plain_network(backbone):
    g, x = with_loops(small().graph, backbone), small().graph.ndata["feat"]
    torch.manual_seed(0)
    model = GNN(backbone, 12, 8, 5, layers=3, heads=2, out_heads=2).eval()
    h = x
    for k, layer in enumerate(model.layers):
        h = layer.conv(g, h)
        if backbone == "gat":
            h = h.mean(1) if k == 2 else h.flatten(1)
        h = h if k == 2 else functional.elu(h) if backbone == "gat" else torch.relu(h)
    torch.testing.assert_close(model(g, x), h)


@pytest.mark.parametrize("layers", [1, 4])
def test_any_depth(layers):
    metrics = train(settings(method="ptdnet", layers=layers, residual=True), small()).metrics
    assert len(metrics.edges_kept[0]) == layers


def test_gates_are_the_same_in_mini_batches():
    sampler = dgl.dataloading.NeighborSampler([4, 4])
    for method in ("ptdnet", "ptdnet-plus", "dropedge"):
        t = trainer(method=method, gate_mlp=True, dropout=0.0)
        gate, g = t.model.gates[0], t.task.parts[0].graph
        x = g.ndata["feat"]
        if t.bias is not None:
            t.bias.set_logits([torch.randn(g.num_edges())])
        inputs, _, blocks = sampler.sample(g, torch.arange(0, g.num_nodes(), 3))
        offset = gate.noise.clone()
        whole = gate(g, x)
        gate.noise.copy_(offset)
        part = gate(blocks[0], x[inputs])
        assert 0 < len(part) < len(whole)
        assert bool((part == whole[blocks[0].edata[dgl.EID]]).all())


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat"])
def test_a_shut_layer_does_not_look_at_edges(backbone):
    data = synthetic(class_size=20, num_pairs=300)
    given = {"dataset": "synthetic", "backbone": backbone, "method": "basic", "hidden": 4, "seeds": 1, "epochs": 2}
    given["dropout"] = 0.0  # that of attention draws for every edge, dropped or not
    one, none = (
        train(resolve(given, layers=1, control="shut"), g).seeds[0].history
        for g in (data.graph, ptd_without_edges(data.graph))
    )
    assert [row.val_loss for row in one] == pytest.approx([row.val_loss for row in none], rel=1e-6)
    open_ = train(resolve(given, layers=1), data.graph).seeds[0].history
    assert open_[-1].val_loss != pytest.approx(one[-1].val_loss, rel=1e-6)


def ptd_without_edges(g):
    return dgl.remove_edges(g, torch.arange(g.num_edges()))


def test_the_node_mlp_has_about_the_size_of_a_gate():
    def size(**given):
        model = build(resolve(dataset="cora", backbone="gcn", **given), 1433, 7)
        return sum(parameter.numel() for parameter in model.parameters())

    basic = size(method="basic", hidden=32)
    mlp, gate = size(method="basic", hidden=32, control="node-mlp"), size(method="ptdnet-wl", hidden=32)
    assert mlp - basic == pytest.approx(gate - basic, rel=0.05)


@pytest.mark.parametrize("backbone", BACKBONES)
@pytest.mark.parametrize("method", ["ptdnet", "neuralsparse"])
def test_networks_take_sparse_rows_for_dense_ones(backbone, method):
    g = with_loops(small().graph, backbone)
    x = g.ndata["feat"] * (torch.arange(12) < 1)
    model = trainer(method=method, backbone=backbone, gate_normalize=backbone == "gcn").model.eval()
    torch.testing.assert_close(model(g, SparseRows(x)), model(g, x))

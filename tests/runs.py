"""Small graphs, and runs on them, for the tests of training and of studies."""

import torch

from dgl_ptdnet.data import Dataset, synthetic
from dgl_ptdnet.train import resolve
from dgl_ptdnet.train.loop import Trainer
from dgl_ptdnet.train.results import JsonRecord
from dgl_ptdnet.train.tasks import make_task


def small(seed=0, **options):
    return synthetic(seed, **{"class_size": 20, "num_pairs": 300, "num_feats": 12, **options})


def several_graphs(multilabel=True):
    graphs = []
    for seed in range(4):
        g = small(seed).graph
        label = g.ndata["label"]
        if multilabel:
            g.ndata["label"] = torch.stack([label % 2 == 0, label > 1, label == 3], 1).float()
            g.ndata["label_exact"] = torch.arange(len(label)) % 3 > 0
        for k, split in enumerate(("train", "val", "test")):
            g.ndata[f"{split}_mask"] = torch.full((len(label),), (0, 0, 1, 2)[seed] == k)
        graphs.append(g)
    return Dataset.from_graphs(graphs, name="several")


def settings(**given):
    return resolve({"dataset": "small", "seeds": 1, "epochs": 3, "hidden": 8, "heads": 2, **given})


def trainer(data=None, seed=0, **given):
    s = settings(**given)
    return Trainer(make_task(data or small(), s, seed), s, seed)


def same_bits(a, b):
    """Whether two results are equal to the last bit, except for the times in them."""
    if isinstance(a, JsonRecord):
        a, b = a.to_json(), b.to_json()
    if isinstance(a, torch.Tensor):
        return a.shape == b.shape and bool((a == b).all())
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same_bits(a[k], b[k]) for k in a if k not in ("seconds", "epoch_seconds"))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same_bits, a, b))
    return a == b

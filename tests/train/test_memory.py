"""Memory that is kept for the next epoch."""

import resource
import sys

import dgl
import pytest
import torch
from runs import trainer

from dgl_ptdnet.data import Dataset
from dgl_ptdnet.train.memory import keep_freed_memory


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults as Linux does, and wants glibc")
def test_epochs_get_no_fresh_memory():
    keep_freed_memory()
    g = dgl.graph((torch.arange(4000), torch.arange(4000).roll(1)))
    g.ndata["feat"], g.ndata["label"] = torch.rand(4000, 1000), torch.arange(4000) % 3  # 16 MB
    t = trainer(Dataset.from_graphs(g), method="basic", hidden=64)
    for _ in range(3):
        t.run_epoch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    t.run_epoch()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000  # of 4 KB; dropout alone makes 4,000

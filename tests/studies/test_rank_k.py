"""Impacts of K."""

import pytest
import torch
from recorded import QUICK
from runs import small

from dgl_ptdnet.graph import edges_of
from dgl_ptdnet.studies import rank_k
from dgl_ptdnet.studies.jobs import execute
from dgl_ptdnet.studies.rank_k import dense_norm


def test_the_dense_algorithm_gives_the_norm_and_its_gradient():
    g = small().graph
    index, z = edges_of(g).index, torch.rand(g.num_edges(), dtype=torch.float64, requires_grad=True)
    value = dense_norm(index.src, index.dst, g.num_nodes(), z, 4)
    gradient = torch.autograd.grad(value, z)[0]
    matrix = torch.zeros(g.num_nodes(), g.num_nodes(), dtype=torch.float64)
    u, values, vh = torch.linalg.svd(
        matrix.index_put((index.src.long(), index.dst.long()), z.detach(), accumulate=True)
    )
    assert float(value.detach()) == pytest.approx(float(values[:4].sum()), rel=1e-10)
    want = (u[index.src.long(), :4] * vh[:4, index.dst.long()].T).sum(1)
    torch.testing.assert_close(gradient, want, rtol=0, atol=1e-8)


def test_times_are_of_both_algorithms():
    job = next(job for job in rank_k.jobs(QUICK) if job.alone)
    times = execute(job)
    assert times.low_rank_ms > 0
    assert times.dense_ms > 0

"""Sparse rows stand for the dense matrix, in values and gradients; dropout drops the share that it is told."""

import copy

import pytest
import torch
from torch.nn import functional

from dgl_ptdnet.sparse import SparseRows, dropout, sparse_if_faster


def test_sparse_rows_are_as_good_as_dense_ones():
    torch.manual_seed(0)
    dense = torch.rand(50, 30) * (torch.rand(50, 30) < 0.1)
    rows = sparse_if_faster(dense)
    assert isinstance(rows, SparseRows)
    assert sparse_if_faster(dense + 1) is not rows
    assert rows.shape == dense.shape
    assert len(rows) == 50
    torch.testing.assert_close(rows.dense(), dense)
    torch.testing.assert_close(torch.relu(rows), dense)
    torch.testing.assert_close(2 * torch.ones(()) * rows, 2 * dense)
    weight, bias = torch.randn(30, 7, requires_grad=True), torch.randn(7)
    for sparse, plain in (
        (rows @ weight, dense @ weight),
        (functional.linear(rows, weight.t(), bias), functional.linear(dense, weight.t(), bias)),
    ):
        torch.testing.assert_close(sparse, plain)
        grads = [torch.autograd.grad(out.square().sum(), weight)[0] for out in (sparse, plain)]
        torch.testing.assert_close(*grads)
    dropped = functional.dropout(rows, 0.5)
    assert ((dropped.dense() == 0) | ((dropped.dense() - 2 * dense).abs() < 1e-6)).all()
    assert dropped.values.count_nonzero() < rows.values.count_nonzero()


def test_layer_norm_by_algebra_is_that_of_the_dense_matrix():
    torch.manual_seed(0)
    dense = 3 * torch.rand(50, 30, dtype=torch.float64) * (torch.rand(50, 30) < 0.1)
    dense[7] = 0  # a row of zeros has no variance
    rows, want = functional.layer_norm(SparseRows(dense), (30,)), functional.layer_norm(dense, (30,))
    assert isinstance(rows, SparseRows)
    weight, bias = torch.randn(7, 30, dtype=torch.float64, requires_grad=True), torch.randn(7, dtype=torch.float64)
    outs = [functional.linear(x, weight, bias) for x in (rows, want)]
    torch.testing.assert_close(*outs)
    torch.testing.assert_close(*[torch.autograd.grad(out.square().sum(), weight)[0] for out in outs])
    torch.testing.assert_close(rows.dense(), want)
    torch.testing.assert_close(torch.relu(rows), torch.relu(want))
    torch.testing.assert_close(
        functional.layer_norm(SparseRows(dense), (30,), eps=0.5).dense(), functional.layer_norm(dense, (30,), eps=0.5)
    )


def test_copies_and_dtypes():
    rows = SparseRows(torch.eye(5))
    assert torch.equal(copy.deepcopy(rows).dense(), torch.eye(5))
    assert rows.to(torch.ones(1)) is rows
    assert rows.to(torch.ones(1, dtype=torch.float64)).dense().dtype == torch.float64


@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 0.9])
def test_dropout_keeps_the_right_share_and_the_mean(p):
    torch.manual_seed(0)
    x = torch.ones(1001, 301, requires_grad=True)
    y = dropout(x, p)
    assert float((y == 0).float().mean()) == pytest.approx(p, abs=0.005)
    assert y.detach().mean().item() == pytest.approx(1, abs=0.02)
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert dropout(x, p, training=False) is x
    columns, halves = (y != 0).float().detach(), (y != 0).float().detach().flatten()[: 4 * 75000].view(-1, 4)
    if p:
        assert columns.std(0).min() > 0
        assert torch.corrcoef(halves.T).fill_diagonal_(0).abs().max() < 0.02  # the four of a draw


def test_dropout_of_everything_and_of_normalized_rows():
    x = torch.rand(6, 4) + 1
    assert not dropout(x, 1.0).any()
    normalized = SparseRows(torch.eye(6)).normalized()
    dropped = dropout(normalized, 0.5)
    kept = dropped != 0
    torch.testing.assert_close(dropped[kept], 2 * normalized.dense()[kept])

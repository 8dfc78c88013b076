"""Several linear maps of one matrix against torch's own layers."""

import pytest
import torch
from torch.nn import functional

import dgl_ptdnet as ptd
from dgl_ptdnet.ops import linear_maps

ops = torch.ops.dgl_ptdnet
SIZES = [(5,), (16,), (4, 7, 33), (64, 64, 121)]


def maps_of(sizes, feats, dtype=torch.float64, seed=0, device="cpu"):
    generator = torch.Generator().manual_seed(seed)

    def numbers(*shape):
        return torch.randn(*shape, generator=generator).to(device, dtype).requires_grad_()

    return [(numbers(size, feats), numbers(size) if i % 2 == 0 else None) for i, size in enumerate(sizes)]


def tensors(x, maps):
    return [x, *(t for pair in maps for t in pair if t is not None)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("sizes", SIZES)
def test_results_and_gradients_are_those_of_torch(sizes, dtype, device):
    x = torch.randn(50, 12).to(device, dtype).requires_grad_()
    maps = maps_of(sizes, 12, dtype, device=device)
    ours, theirs = linear_maps(x, maps), [functional.linear(x, *pair) for pair in maps]
    for got, wanted in zip(ours, theirs):
        torch.testing.assert_close(got, wanted)
    grads = [torch.randn_like(y) for y in theirs]
    found = torch.autograd.grad(ours, tensors(x, maps), grads)
    tolerance = {"rtol": 0.05, "atol": 0.3} if dtype == torch.bfloat16 else {}  # gradients are summed in bfloat16
    for got, wanted in zip(found, torch.autograd.grad(theirs, tensors(x, maps), grads)):
        torch.testing.assert_close(got, wanted, **tolerance)


def test_gradcheck_passes():
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    maps = maps_of((2, 5), 3)
    leaves = tensors(x, maps)
    assert torch.autograd.gradcheck(lambda *_: tuple(linear_maps(x, maps)), leaves)


@pytest.mark.parametrize("shape", [(0, 6), (3, 0, 6), (2, 3, 6)])
def test_rows_may_have_any_number_of_dimensions_and_be_none(shape):
    x, maps = torch.randn(shape, dtype=torch.float64, requires_grad=True), maps_of((4, 9), 6)
    for got, (weight, bias) in zip(linear_maps(x, maps), maps):
        torch.testing.assert_close(got, functional.linear(x, weight, bias))
    sum(y.sum() for y in linear_maps(x, maps)).backward()
    assert x.grad.shape == shape


def test_only_what_is_wanted_gets_a_gradient():
    x, maps = torch.randn(7, 6), [(torch.randn(4, 6), torch.zeros(4, requires_grad=True)), (torch.randn(3, 6), None)]
    torch.cat(linear_maps(x, maps), 1).sum().backward()
    torch.testing.assert_close(maps[0][1].grad, torch.full((4,), 7.0))
    assert x.grad is None
    assert maps[1][0].grad is None


def test_large_results_use_memory_again():
    ptd.release_memory()
    x, maps = torch.randn(9000, 64), [(torch.randn(128, 64), None)]
    first = linear_maps(x, maps)[0]
    place, wanted = first.data_ptr(), first.clone()
    del first
    again = linear_maps(x, maps)[0]
    assert again.data_ptr() == place
    assert torch.equal(again, wanted)


def test_autocast_is_that_of_torch():
    x, maps = torch.randn(20, 6, requires_grad=True), maps_of((5, 3), 6, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        ours, theirs = linear_maps(x, maps), [functional.linear(x, *pair) for pair in maps]
    assert {y.dtype for y in ours} == {torch.bfloat16}
    for got, wanted in zip(ours, theirs):
        torch.testing.assert_close(got, wanted, rtol=0.02, atol=0.02)
    sum(y.float().sum() for y in ours).backward()
    assert {t.grad.dtype for t in tensors(x, maps)} == {torch.float32}


@pytest.mark.skipif(not hasattr(torch.library, "opcheck"), reason="torch before 2.4 has no opcheck")
def test_opcheck_passes(device):
    x = torch.randn(6, 5, device=device)
    weights = [torch.randn(size, 5, device=device) for size in (3, 16)]
    torch.library.opcheck(ops.linear.default, (x, weights, [torch.randn(3, device=device), None]))
    grads = [torch.randn(6, size, device=device) for size in (3, 16)]
    for need in ((True, True), (False, True), (True, False)):
        torch.library.opcheck(ops.linear_backward.default, (grads, x, weights, *need))


@pytest.mark.skipif(not hasattr(torch.library, "opcheck"), reason="torch before 2.4 compiles no such function")
def test_compiles_as_one_graph():
    x, maps = torch.randn(20, 6, requires_grad=True), maps_of((5, 3), 6, torch.float32)

    def total(x):
        return sum(y.square().sum() for y in linear_maps(x, maps))

    (wanted,) = torch.autograd.grad(total(x), x)
    (found,) = torch.autograd.grad(torch.compile(total, fullgraph=True, backend="aot_eager")(x), x)
    torch.testing.assert_close(found, wanted)


def test_the_result_of_one_map_may_be_changed_in_place():
    x, maps = torch.randn(8, 6, requires_grad=True), maps_of((7,), 6, torch.float32)
    y = linear_maps(x, maps)[0]
    assert y.is_contiguous()
    y.relu_().sum().backward()
    assert x.grad is not None


def test_narrow_results_take_no_more_than_they_need():
    narrow = linear_maps(torch.randn(8, 6), maps_of((1, 4), 6, torch.float32))
    assert all(y.is_contiguous() for y in narrow)


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match=r"features must be \[N, F\]; got shape \(3,\)"):
        linear_maps(torch.randn(3), [(torch.randn(2, 3), None)])
    with pytest.raises(ValueError, match=r"x must be \[N, F\] and every weight \[S, F\]; got \[4, 3\] and \[2, 5\]"):
        linear_maps(torch.randn(4, 3), [(torch.randn(2, 5), None)])

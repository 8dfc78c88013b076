"""The index: its orders, what it is checked against, and that no operator follows wrong values in it."""

import copy
import pickle

import numpy as np
import pytest
import torch
from twins import make_index

import dgl_ptdnet as ptd
from dgl_ptdnet.ops import IndexTensors

ops = torch.ops.dgl_ptdnet


@pytest.mark.parametrize(("edges", "nodes"), [(0, (3, 2)), (1, (1, 1)), (300, (20, 31)), (70_000, (500, 9))])
@pytest.mark.parametrize("ids", [torch.int32, torch.int64])
def test_the_orders_are_stable_sorts(edges, nodes, ids, threads, device):
    index = make_index(edges, *nodes, hub=edges > 100, ids=ids, device=device)
    src, dst = index.src.long(), index.dst.long()
    in_edge = torch.argsort(dst, stable=True)
    out_pos = torch.argsort(src[in_edge], stable=True)
    starts = [
        torch.searchsorted(x, torch.arange(n + 1, device=device))
        for x, n in ((dst[in_edge], nodes[1]), (src[in_edge][out_pos], nodes[0]))
    ]
    want = (starts[0], src[in_edge], dst[in_edge], in_edge, starts[1], out_pos, dst[in_edge][out_pos], in_edge[out_pos])
    for count in (1, 3):
        threads(count)
        made = ptd.EdgeIndex(index.src, index.dst, *nodes).tensors
        assert all(torch.equal(x.long(), y) for x, y in zip(made, want))


def test_a_copy_or_a_pickle_is_an_index_of_the_same_edges():
    index = make_index(50, 9, 7)
    index.src[0] = index.src[0]  # a version that a copy does not have
    index = ptd.EdgeIndex(index.src, index.dst, 9, 7)
    for other in (copy.deepcopy(index), pickle.loads(pickle.dumps(index))):
        other.check(other.src, other.dst)
        other.check(index.src, index.dst)
        assert all(torch.equal(x, y) for x, y in zip(index.tensors, other.tensors))


def test_other_edges_in_the_same_memory_are_refused():
    numbers = np.arange(40) % 8
    ids = torch.from_numpy(numbers)
    src, dst = ids[:10], ids[10:20]
    index = ptd.EdgeIndex(src, dst, 8, 8)
    for other in (ids[::2][:10], ids[:10].flip(0), ids.view(torch.int32)[:10]):
        with pytest.raises(ValueError, match="src differs"):
            index.check(other, dst)
    numbers[0] = 5  # torch does not notice
    with pytest.raises(ValueError, match="src differs"):
        index.check(torch.from_numpy(numbers)[:10], dst)


def calls(tensors):
    """A call of every operator with an index of 9 sources, 7 destinations and 30 edges."""
    p, q, z, one = torch.randn(9, 4), torch.randn(7, 4), torch.rand(30), torch.tensor(0.0)
    settings = {"negative_slope": 0.0, "tau": 1.0, "gamma": -0.1, "zeta": 1.1, "penalty": False, "save": False}
    slope = {"negative_slope": 0.2}
    return {
        "edge_gate": lambda: ops.edge_gate(tensors, p, q, torch.ones(4), one, None, None, None, **settings),
        "aggregate": lambda: ops.aggregate(tensors, p, z),
        "aggregate_backward": lambda: ops.aggregate_backward(q, tensors, p, z, True, True),
        "edge_dot": lambda: ops.edge_dot(tensors, p, q),
        "maximum": lambda: ops.maximum(tensors, p, z),
        "segment_sum": lambda: ops.segment_sum(tensors, z, False),
        "segment_spread": lambda: ops.segment_spread(tensors, torch.rand(7), False),
        "normalize": lambda: ops.normalize(tensors, z, left=0.5, right=0.5, floor=1.0),
        "attention": lambda: ops.attention(
            tensors, p[:, None], torch.rand(9, 1), torch.rand(7, 1), None, z, **slope, weights=False
        ),
        "edge_scores": lambda: ops.edge_scores(tensors, p, q, torch.ones(4), **slope),
        "common_neighbours": lambda: ops.common_neighbours(
            tensors, z.double(), torch.zeros(2).long(), torch.zeros(2).long()
        ),
    }


@pytest.mark.parametrize("name", IndexTensors._fields)
@pytest.mark.parametrize("value", [10**9, -1])
def test_an_index_that_was_written_to_is_refused_by_every_operator(name, value):
    tensors = make_index(30, 9, 7).tensors
    getattr(tensors, name)[1] = value
    for call in calls(tensors).values():
        with pytest.raises(ValueError, match=r"changed in place\. Make a new EdgeIndex"):
            call()


@pytest.mark.parametrize("name", IndexTensors._fields)
@pytest.mark.parametrize("value", [10**9, -1])
def test_foreign_tensors_with_wrong_values_are_refused_by_every_operator(name, value):
    good = make_index(30, 9, 7).tensors
    wrong = getattr(good, name).clone()
    wrong[1] = value
    for call in calls(good._replace(**{name: wrong})).values():
        with pytest.raises(ValueError, match="not those of a graph"):
            call()
    with pytest.raises(ValueError, match="not those of a graph"):  # of a larger graph
        ops.aggregate(make_index(30, 10, 7, seed=3).tensors._replace(out_ptr=good.out_ptr), torch.randn(9, 4), None)


def test_a_list_of_copies_works():
    index, h = make_index(30, 9, 7), torch.randn(9, 4)
    copies = [x.clone() for x in index.tensors]
    for _ in range(2):
        assert torch.equal(ops.aggregate(copies, h, None), ptd.aggregate(index, h))


def use(index, grad):
    h, z = (torch.randn(9, 4).requires_grad_(grad), torch.rand(30).requires_grad_(grad))
    p, q = (torch.randn(n, 4).requires_grad_(grad) for n in (9, 7))
    gates = ptd.edge_gate(index.src, index.dst, p, q, torch.ones(4), torch.tensor(0.0), index=index)
    heads = [torch.randn(n, 1).requires_grad_(grad) for n in (9, 7)]
    found = [gates, ptd.aggregate(index, h, z, norm="both"), ptd.maximum(index, h, z), ptd.edge_dot(index, p, q)]
    found += [ptd.ops.degrees(index, z), ptd.attention(index, h[:, None], *heads, z)]
    return sum(x.sum() for x in found)


@pytest.mark.parametrize("inference_edges", [False, True])
def test_an_index_of_inference_mode_serves_training_and_the_reverse(inference_edges):
    src, dst = torch.randint(0, 9, (30,)), torch.randint(0, 7, (30,))
    with torch.inference_mode():
        index = ptd.EdgeIndex(*((src.clone(), dst.clone()) if inference_edges else (src, dst)), 9, 7)
        use(index, grad=False)
    use(index, grad=True).backward()
    index = ptd.EdgeIndex(src, dst, 9, 7)
    use(index, grad=True).backward()
    with torch.inference_mode():
        use(index, grad=False)


def test_arguments_of_a_wrong_class_are_named():
    ids = torch.tensor([0, 1])
    for error, message, arguments in [
        (TypeError, "src must be a torch.Tensor; got list", ([0, 1], ids, 2, 2)),
        (TypeError, "dst must be a torch.Tensor; got NoneType", (ids, None, 2, 2)),
        (TypeError, "num_src must be an int; got str", (ids, ids, "2", 2)),
        (TypeError, "num_dst must be an int; got float", (ids, ids, 2, 2.0)),
        (TypeError, "num_dst must be an int; got bool", (ids, ids, 2, True)),
        (IndexError, r"src\[1\] = 1 is out of range", (ids, ids, 1, 2)),
    ]:
        with pytest.raises(error, match=message):
            ptd.EdgeIndex(*arguments)
    index, h = make_index(30, 9, 7), torch.randn(9, 4)
    for name, arguments in {
        "aggregate": (h,),
        "maximum": (h,),
        "edge_dot": (h, h),
        "attention": (h, h, h),
        "attention_v2": (h, h, h, h),
    }.items():
        function = getattr(ptd, name)
        with pytest.raises(TypeError, match=r"index must be a dgl_ptdnet.EdgeIndex; got list"):
            function([0], *arguments)
        with pytest.raises(TypeError, match=r"must be a torch.Tensor; got str"):
            function(index, *arguments[:-1], "abc")
    with pytest.raises(TypeError, match=r"z must be a torch.Tensor; got str"):
        ptd.normalize(index, "abc", "none")
    with pytest.raises(TypeError, match=r"z must be a torch.Tensor; got float"):
        ptd.aggregate(index, h, 0.5)


def test_tensors_that_no_kernel_can_read_are_refused_by_name():
    index, h, z = make_index(30, 9, 7), torch.randn(9, 4), torch.rand(30)
    for wrong, error, message in [
        (h.to("meta"), (ValueError, RuntimeError), "device"),
        (h.to_sparse(), TypeError, "h must be a dense tensor"),
        (h.to(torch.complex64), TypeError, "h must be float32"),
        (h.bool(), TypeError, "h must be float32, float64, bfloat16 or float16; got torch.bool"),
    ]:
        for function in (ptd.aggregate, ptd.maximum):
            with pytest.raises(error, match=message):
                function(index, wrong, z)
    with pytest.raises(ValueError, match="z must be on one device with h"):
        ptd.aggregate(index, h, z.to("meta"))
    with pytest.raises(TypeError, match="z must be a dense tensor"):
        ptd.normalize(index, z.to_sparse())


def test_forward_mode_and_function_transforms_are_refused_by_name():
    index, h = make_index(30, 9, 7), torch.randn(9, 4)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(h, torch.ones_like(h))
        with pytest.raises(NotImplementedError, match="aggregate has no forward-mode derivative"):
            ptd.aggregate(index, dual)
    with pytest.raises(NotImplementedError, match=r"aggregate does not work under torch\.func"):
        torch.func.grad(lambda h: ptd.aggregate(index, h).sum())(h)
    with pytest.raises(NotImplementedError, match=r"aggregate does not work under torch\.func"):
        torch.func.jvp(lambda h: ptd.aggregate(index, h), (h,), (h,))
    with pytest.raises(RuntimeError, match="not implemented for dgl_ptdnet::aggregate"):
        torch.func.vmap(lambda h: ptd.aggregate(index, h))(h[None])


def test_autocast_promotes_where_kinds_of_rows_meet():
    index = make_index(30, 9, 7)
    h, q, z = torch.randn(9, 4), torch.randn(7, 4), torch.rand(30)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ptd.edge_dot(index, h.bfloat16(), q).dtype == torch.float32
        for gates in (z, z.bfloat16()):
            assert ptd.ops.degrees(index, gates).dtype == torch.float32
            assert ptd.normalize(index, gates).dtype == torch.float32
        for activation in ("relu", "identity"):
            z = ptd.edge_gate(
                index.src, index.dst, h.bfloat16(), q, torch.ones(4), torch.tensor(0.0), activation=activation
            )
            assert z.dtype == torch.float32

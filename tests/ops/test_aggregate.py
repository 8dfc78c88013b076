"""Gated sums, means and maxima against their plain-torch twins in float64."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from twins import DTYPES, assert_as_good_as_torch, gates, make_index, numbers, outcome, same_bits, upstream

import dgl_ptdnet as ptd

ops = torch.ops.dgl_ptdnet
NORMS = ["none", "both", "left", "right", "mean"]
ODD_GRAPHS = [  # edges, sources, destinations, hub
    (0, 5, 3, False),
    (0, 0, 0, False),
    (1, 1, 1, False),
    (63, 4, 900, False),
    (65, 900, 4, False),
    (1024, 50, 50, False),
    (1025, 50, 50, False),
    (9000, 30, 30, True),
    (9000, 1, 1, False),
    (9000, 5000, 7000, False),
]


def acc(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def inputs_of(index, shape, dtype=torch.float32, z="edge", seed=0):
    """h and z: ``edge`` a gate an edge, ``head`` one for each head, ``none``."""
    heads = shape[:1] if z == "head" else ()
    gate = None if z == "none" else gates(index.num_edges, *heads, seed=seed, dtype=acc(dtype))
    h = numbers(index.num_src, *shape, seed=seed + 1, dtype=dtype)
    return {"h": h.to(index.src.device), "z": None if gate is None else gate.to(index.src.device)}


SHAPES: list[Any] = [((f,), "edge") for f in (1, 2, 7, 16, 33, 50, 121, 128, 200, 256, 300)]
SHAPES += [((1, 9), "head"), ((8, 3), "head"), ((4, 64), "head"), ((3, 40), "edge"), ((2, 300), "head"), ((5,), "none")]


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_err_at_most_twice_as_much_as_plain_torch(dtype, level):
    index = make_index(3001, 101, 67)
    for shape, z in SHAPES:
        assert_as_good_as_torch("aggregate", index, inputs_of(index, shape, dtype, z))


@pytest.mark.parametrize("dtype", DTYPES)
def test_maxima_are_those_of_the_twin(dtype, level):
    index = make_index(3001, 101, 67)
    for shape, z in [*(((f,), "edge") for f in (1, 7, 121, 300)), ((3, 40), "edge"), ((9,), "none")]:
        assert_as_good_as_torch("maximum", index, inputs_of(index, shape, dtype, z))


@pytest.mark.parametrize("name", ["aggregate", "maximum"])
@pytest.mark.parametrize(("edges", "num_src", "num_dst", "hub"), ODD_GRAPHS)
def test_odd_graphs(name, edges, num_src, num_dst, hub, level):
    index = make_index(edges, num_src, num_dst, hub=hub, ids=torch.int32)
    for shape in ((1,), (20,), (2, 16)):
        assert_as_good_as_torch(name, index, inputs_of(index, shape))


@pytest.mark.parametrize("dtype", DTYPES)
def test_matches_the_twin_on_every_device(dtype, device):
    index = make_index(3001, 101, 67, device=device)
    for norm in NORMS:
        assert_as_good_as_torch("aggregate", index, inputs_of(index, (4, 20), dtype, "head"), norm=norm)
    assert_as_good_as_torch("maximum", index, inputs_of(index, (50,), dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dot_products_are_those_of_the_twin(dtype, level):
    for edges, num_src, num_dst, hub in [*ODD_GRAPHS, (3001, 101, 67, False)]:
        index = make_index(edges, num_src, num_dst, hub=hub)
        for feats in (1, 7, 64, 130):
            inputs = {"a": numbers(num_src, feats, dtype=dtype), "b": numbers(num_dst, feats, seed=1, dtype=dtype)}
            assert_as_good_as_torch("edge_dot", index, inputs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_degrees_and_norms_are_those_of_the_twins(dtype):
    for edges, num_src, num_dst, hub in ODD_GRAPHS:
        index = make_index(edges, num_src, num_dst, hub=hub)
        for heads in ((), (3,)):
            inputs = {"z": gates(edges, *heads, dtype=dtype)}
            for by in ("src", "dst"):
                assert_as_good_as_torch("degrees", index, inputs, by=by)
            for norm, floor in itertools.product(NORMS, (1.0, 0.01, 0.0)):
                assert_as_good_as_torch("normalize", index, inputs, norm=norm, floor=floor)


def test_norms_are_dgl_s_where_every_gate_is_open():
    dgl = pytest.importorskip("dgl")
    index = make_index(500, 40, 40)
    graph = dgl.graph((index.src, index.dst), num_nodes=40)
    h = numbers(40, 12)
    for norm in ("none", "both", "left", "right"):
        conv = dgl.nn.GraphConv(12, 12, norm=norm, weight=False, bias=False, allow_zero_in_degree=True)
        torch.testing.assert_close(ptd.aggregate(index, h, torch.ones(500), norm=norm), conv(graph, h))
        torch.testing.assert_close(ptd.aggregate(index, h, norm=norm), conv(graph, h))


def test_a_mean_does_not_count_dropped_edges():
    index = ptd.EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([0, 0, 0]), 3, 2)
    h = torch.tensor([[2.0], [4.0], [100.0]])
    z = torch.tensor([1.0, 1.0, 0.0], requires_grad=True)
    out = ptd.aggregate(index, h, z, norm="mean")
    assert out.flatten().tolist() == [3.0, 0.0]
    closed = torch.zeros(3, requires_grad=True)
    for norm in NORMS:
        (grad,) = torch.autograd.grad(ptd.aggregate(index, h, closed, norm=norm).sum(), closed)
        assert grad.isfinite().all()


# One list of sample inputs for the checks that torch itself offers: exact zeros among the gates, empty rows, a hub.
def samples(device="cpu", dtype=torch.float64):
    for (shape, z), hub in itertools.product(
        [((1,), "edge"), ((5,), "none"), ((1, 3), "head"), ((8, 3), "head"), ((2, 4), "edge")], [False, True]
    ):
        index = make_index(30, 9, 13, hub=hub, ids=torch.int32 if hub else torch.int64, device=device)
        yield index, {k: x for k, x in inputs_of(index, shape, dtype, z).items() if x is not None}


def test_gradients_by_finite_differences(device):
    for index, inputs in samples(device):
        names, leaves = list(inputs), [x.requires_grad_() for x in inputs.values()]

        def function(*values, index=index, names=names, norm="none"):
            return ptd.aggregate(index, **dict(zip(names, values)), norm=norm)

        assert torch.autograd.gradcheck(function, leaves)
        if "z" in inputs:
            with torch.no_grad():
                inputs["z"] += 0.013  # degrees off the floor, where there is a kink
            for norm in NORMS[1:]:
                assert torch.autograd.gradcheck(lambda *v, f=function, norm=norm: f(*v, norm=norm), leaves)


def test_gradients_of_maxima_by_finite_differences(device):
    for index, inputs in samples(device):
        if inputs.get("z") is not None and inputs["z"].dim() == 2:
            continue
        names = list(inputs)
        if "z" in inputs:  # neither kept or not nor the first of equals must hang on a difference
            z = inputs["z"]
            inputs["z"] = torch.where(z > 0, torch.linspace(0.2, 1, len(z), dtype=z.dtype, device=device), -1)
        leaves = [x.requires_grad_() for x in inputs.values()]

        def function(*values, index=index, names=names):
            return ptd.maximum(index, **dict(zip(names, values)))

        assert torch.autograd.gradcheck(function, leaves)


def test_gradients_of_dot_products_by_finite_differences(device):
    for index, inputs in samples(device):
        a = inputs["h"].flatten(1)
        leaves = [a.requires_grad_(), torch.randn(13, a.shape[1], device=device, dtype=a.dtype, requires_grad=True)]
        assert torch.autograd.gradcheck(lambda a, b, index=index: ptd.edge_dot(index, a, b), leaves)


def test_opcheck_passes_on_every_sample(device):
    for index, inputs in samples(device, torch.float32):
        z = inputs.get("z")
        h = inputs["h"].requires_grad_()
        z = None if z is None else z.requires_grad_()
        torch.library.opcheck(ops.aggregate.default, (index.tensors, h, z))
        torch.library.opcheck(ops.aggregate.default, (index.tensors, torch.randn(13, *h.shape[1:]).to(h), z, True))
        grad = torch.randn(13, *h.shape[1:], device=device)
        need = (True, z is not None)
        a, b = h.flatten(1), grad.flatten(1).clone().requires_grad_()
        torch.library.opcheck(ops.edge_dot.default, (index.tensors, a, b))
        h, z = h.detach(), None if z is None else z.detach()
        torch.library.opcheck(ops.aggregate_backward.default, (grad, index.tensors, h, z, *need))
        if z is not None:
            gate = z.clone().requires_grad_()
            torch.library.opcheck(ops.segment_sum.default, (index.tensors, gate, False))
            nodes = torch.rand(13, *z.shape[1:], device=device, requires_grad=True)
            torch.library.opcheck(ops.segment_spread.default, (index.tensors, nodes, False))
            for left, right in ((0.5, 0.5), (0.0, 1.0)):
                settings = {"left": left, "right": right, "floor": 1.0}
                torch.library.opcheck(ops.normalize.default, (index.tensors, gate), settings)
                saved = ops.normalize(index.tensors, z, **settings)
                torch.library.opcheck(
                    ops.normalize_backward.default, (torch.ones_like(z), index.tensors, *saved), settings
                )
        if z is None or z.dim() == 1:
            leaf = h.clone().requires_grad_()
            gate = None if z is None else z.clone().requires_grad_()
            torch.library.opcheck(ops.maximum.default, (index.tensors, leaf, gate))
            arg = ops.maximum(index.tensors, h, z)[1]
            torch.library.opcheck(ops.maximum_backward.default, (grad, index.tensors, h, z, arg, *need))


def test_compiles_without_a_graph_break_for_any_number_of_edges(device):
    def loss(index, h, z):
        summed = ptd.aggregate(index, h, z, norm="both")
        dots = ptd.edge_dot(index, h, summed)
        return (summed * ptd.maximum(index, h, z)).sum() + (ptd.degrees(index, z).square()).sum() + dots.sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for edges in (300, 411):
        grads = []
        for function in (loss, compiled):
            index = make_index(edges, 31, 17, device=device)
            leaves = [x.requires_grad_() for x in inputs_of(index, (6,)).values()]
            value = function(index, *leaves)
            value.backward()
            grads.append([value.detach(), *(x.grad for x in leaves)])
        for eager, fast in zip(*grads):
            torch.testing.assert_close(fast, eager)


@pytest.mark.parametrize("hub", [False, True])
def test_results_do_not_depend_on_the_number_of_threads(hub, level, threads):
    index = make_index(50_000, 700, 300, hub=hub)
    cases: list[Any] = [("aggregate", (24,), "edge", {}), ("maximum", (24,), "edge", {})]
    cases += [("aggregate", (4, 17), "head", {"norm": "both"})]
    for name, shape, z, options in cases:
        inputs = inputs_of(index, shape, z=z)
        results = []
        for count in (1, 2, 3, 8):
            threads(count)
            results.append(outcome(getattr(ptd, name), index, inputs, **options))
        assert all(same_bits(results[0], other) for other in results[1:])


@pytest.mark.parametrize(
    ("shape", "z", "dtype"),
    [
        ((389,), "edge", torch.float32),
        ((3, 150), "head", torch.float32),
        ((7, 60), "head", torch.float32),
        ((7, 60), "edge", torch.float32),
        ((781,), "edge", torch.bfloat16),
        ((199,), "none", torch.float64),
    ],
)
def test_rows_too_wide_for_a_cache_give_what_their_columns_give(shape, z, dtype, level, threads):
    index = make_index(140_000, 17_000, 17_000, hub=True)
    inputs = inputs_of(index, shape, dtype, z)
    grad = upstream(inputs["h"])
    assert grad.numel() * grad.element_size() > 24 << 20

    def run(part=...):
        h: Any = inputs["h"][part].clone().requires_grad_()
        gate: Any = inputs["z"]
        if gate is not None:
            gate = (gate[part[:2]] if gate.dim() == 2 and part is not ... else gate).clone().requires_grad_()
        out = ptd.aggregate(index, h, gate)
        out.backward(grad[part])
        return {"out": out.detach(), "h": h.grad, "z": torch.zeros(()) if gate is None else gate.grad}

    results = []
    for count in (1, 2, 3, 8):
        threads(count)
        results.append(run())
    assert all(same_bits(results[0], other) for other in results[1:])
    total = torch.zeros_like(results[0]["z"])
    for head in range(shape[0]) if len(shape) == 2 else [None]:
        for columns in (slice(0, 50), slice(50, shape[-1])):
            part = (slice(None), *(() if head is None else (slice(head, head + 1),)), columns)
            found = run(part)
            assert torch.equal(found["out"], results[0]["out"][part])
            assert torch.equal(found["h"], results[0]["h"][part])
            (total[part[:2]] if z == "head" else total).add_(found["z"])
    torch.testing.assert_close(total, results[0]["z"], rtol=1e-5, atol=1e-3)


def test_rows_may_have_a_stride(level):
    index = make_index(700, 50, 40)
    for feats, dtype in itertools.product([1, 16, 19, 121], DTYPES):
        wide = numbers(50, 2 * feats, dtype=dtype)
        z = gates(700, dtype=acc(dtype))
        for name in ("aggregate", "maximum"):
            function = getattr(ptd, name)
            want = outcome(function, index, {"h": wide[:, feats:].clone(), "z": z})
            for rows in (wide[:, feats:], wide[:, feats:].t().contiguous().t()):
                leaf = rows.detach().requires_grad_()
                gate: Any = torch.stack([z, z], 1)[:, 0].requires_grad_()
                assert not leaf.is_contiguous() or feats == 1
                out = function(index, leaf, gate)
                assert torch.equal(out, want["result 0"])
                half = torch.zeros(40, 2 * feats, dtype=dtype)
                half[:, :feats] = upstream(out)
                out.backward(half[:, :feats])  # the gradient has a stride, too
                assert torch.equal(leaf.grad, want["grad of h"])
                assert torch.equal(gate.grad, want["grad of z"])


def test_a_gradient_that_is_expanded_is_read_right():
    index = make_index(300, 20, 30)
    inputs = inputs_of(index, (5,), torch.float64)
    leaf: Any = inputs["h"].requires_grad_()
    ptd.aggregate(index, leaf, inputs["z"]).sum().backward()
    torch.testing.assert_close(leaf.grad, ptd.degrees(index, inputs["z"], "src")[:, None].expand(20, 5))


@pytest.mark.parametrize("name", ["aggregate", "maximum"])
def test_only_the_gradients_that_are_wanted(name):
    index = make_index(300, 20, 30)
    want = outcome(getattr(ptd, name), index, inputs_of(index, (6,)))
    for wanted in ("h", "z"):
        inputs = inputs_of(index, (6,))
        inputs[wanted].requires_grad_()
        out = getattr(ptd, name)(index, **inputs)
        out.backward(upstream(out))
        assert torch.equal(inputs[wanted].grad, want[f"grad of {wanted}"])


def test_nan_and_infinity_come_through_maxima():
    index = ptd.EdgeIndex(torch.tensor([0, 1, 2, 3]), torch.tensor([0, 0, 1, 1]), 4, 2)
    nan, inf = float("nan"), float("inf")
    h = torch.tensor([[1.0, nan], [nan, 2.0], [-inf, inf], [-inf, 0.0]])
    out = ptd.maximum(index, h)
    assert out[0].isnan().all()
    assert out[1].tolist() == [-inf, inf]


def test_the_first_of_equal_maxima_has_the_gradient():
    index = ptd.EdgeIndex(torch.tensor([2, 0, 1]), torch.tensor([0, 0, 0]), 3, 1)
    h: Any = torch.ones(3, 4, requires_grad=True)
    ptd.maximum(index, h).sum().backward()
    assert h.grad.sum(1).tolist() == [0.0, 0.0, 4.0]


def test_autocast_keeps_the_gates_in_float32():
    index = make_index(500, 40, 40)
    inputs = inputs_of(index, (16,))
    h, z = inputs["h"].requires_grad_(), inputs["z"].requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = h @ torch.eye(16)
        out = ptd.aggregate(index, low, z)
    assert low.dtype == out.dtype == torch.bfloat16
    out.sum().backward()
    assert z.grad.dtype == h.grad.dtype == torch.float32


def test_double_backward_is_refused():
    index = make_index(30, 5, 5)
    for name in ("aggregate", "maximum", "normalize"):
        inputs = {k: x.requires_grad_() for k, x in inputs_of(index, (4,), torch.float64).items()}
        if name == "normalize":
            del inputs["h"]
        out = getattr(ptd, name)(index, **inputs)
        (grad,) = torch.autograd.grad(out.square().sum(), inputs["z"], create_graph=True)
        with pytest.raises(RuntimeError, match=f"{name} has no second derivative"):
            grad.sum().backward()


def test_wrong_input_is_refused_with_the_argument_and_the_remedy():
    index = make_index(30, 5, 7)
    h, z = torch.randn(5, 4), torch.rand(30)
    cases = [
        (ValueError, "h has 6 rows.*5 sources", (torch.randn(6, 4), z)),
        (ValueError, "h must be .N, F.", (torch.randn(5), z)),
        (ValueError, "F, heads >= 1", (torch.randn(5, 0), z)),
        (TypeError, "h must be float32.*got torch.int32", (torch.ones(5, 4, dtype=torch.int32), None)),
        (ValueError, "z has 29 entries.*30 edges", (h, z[:-1])),
        (TypeError, "z must be torch.float32", (h, z.double())),
        (TypeError, "z must be torch.float64", (h.double(), z)),
    ]
    for error, message, (rows, gate) in cases:
        for function in (ptd.aggregate, ptd.maximum):
            with pytest.raises(error, match=message):
                function(index, rows, gate)
    with pytest.raises(ValueError, match=r"z must be \[E\], or \[E, heads\]"):
        ptd.aggregate(index, h, torch.rand(30, 2))
    with pytest.raises(ValueError, match=r"z must be \[E\], or \[E, heads\]"):
        ptd.aggregate(index, torch.randn(5, 3, 4), torch.rand(30, 2))
    with pytest.raises(ValueError, match=r"z must be \[E\]: maximum has no heads"):
        ptd.maximum(index, torch.randn(5, 3, 4), torch.rand(30, 3))
    with pytest.raises(ValueError, match=r"a must be \[N_src, F\] and b \[N_dst, F\]"):
        ptd.edge_dot(index, h, torch.randn(7, h.shape[1] + 1))
    with pytest.raises(ValueError, match=r"b has 6 rows.*7 destinations"):
        ptd.edge_dot(index, h, torch.randn(6, h.shape[1]))
    with pytest.raises(ValueError, match="norm must be one of"):
        ptd.aggregate(index, h, z, norm="batch")
    with pytest.raises(ValueError, match="by must be"):
        ptd.degrees(index, z, by="node")
    with pytest.raises(ValueError, match="floor must be finite and not negative"):
        ptd.normalize(index, z, floor=-1.0)
    with pytest.raises(TypeError, match="z must be float32 or float64"):
        ptd.degrees(index, z.half())
    with pytest.raises(TypeError, match="contiguous int32"):
        ops.aggregate((index.tensors[0].long(), *index.tensors[1:]), h, z)
    with pytest.raises(ValueError, match=r"8 tensors of EdgeIndex\.tensors; got 6"):
        ops.aggregate(index.tensors[:6], h, z)


graphs = st.tuples(st.integers(0, 120), st.integers(1, 30), st.integers(1, 30), st.booleans(), st.integers(0, 10**6))


@settings(max_examples=700, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graphs, st.integers(1, 70), st.sampled_from(["edge", "none"]), st.sampled_from(["aggregate", "maximum"]))
def test_random_graphs(threads, graph, feats, z, name):
    threads(1)
    edges, num_src, num_dst, hub, seed = graph
    index = make_index(edges, num_src, num_dst, hub=hub, seed=seed)
    assert_as_good_as_torch(name, index, inputs_of(index, (feats,), z=z, seed=seed))


@settings(max_examples=500, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(graphs, st.integers(1, 9), st.integers(1, 20), st.sampled_from(["edge", "head"]), st.sampled_from(NORMS))
def test_random_graphs_with_heads(threads, graph, heads, feats, z, norm):
    threads(1)
    edges, num_src, num_dst, hub, seed = graph
    index = make_index(edges, num_src, num_dst, hub=hub, seed=seed)
    assert_as_good_as_torch("aggregate", index, inputs_of(index, (heads, feats), z=z, seed=seed), norm=norm)

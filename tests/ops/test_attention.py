"""Gated attention against its plain-torch twins in float64."""

import itertools
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st
from twins import DTYPES, assert_as_good_as_torch, gates, make_index, numbers, outcome, same_bits, upstream

import dgl_ptdnet as ptd

ops = torch.ops.dgl_ptdnet
attention: Any = ptd.attention  # a tensor, or a pair of them
attention_v2: Any = ptd.attention_v2
ODD_GRAPHS = [  # edges, sources, destinations, hub
    (0, 5, 3, False),
    (0, 0, 0, False),
    (1, 1, 1, False),
    (63, 4, 900, False),
    (65, 900, 4, False),
    (1025, 50, 50, False),
    (9000, 30, 30, True),
    (9000, 1, 1, False),
    (9000, 5000, 7000, False),
]
SHAPES = [(1, 1), (1, 64), (4, 64), (8, 8), (3, 7), (2, 130)]


def acc(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def inputs_of(index, heads, feats, dtype=torch.float32, z="edge", seed=0, version=1, scale=1.0):
    """Arguments by name. ``z``: ``edge`` a gate an edge, ``head`` one for each head, ``none``."""
    gate = None if z == "none" else gates(index.num_edges, *(heads,) * (z == "head"), seed=seed, dtype=acc(dtype))
    inputs = {"h": numbers(index.num_src, heads, feats, seed=seed + 1, dtype=dtype), "z": gate}
    if version == 1:
        inputs["el"] = scale * numbers(index.num_src, heads, seed=seed + 2, dtype=acc(dtype))
        inputs["er"] = scale * numbers(index.num_dst, heads, seed=seed + 3, dtype=acc(dtype))
    else:
        inputs["p"] = numbers(index.num_src, heads, feats, seed=seed + 2, dtype=dtype)
        inputs["q"] = numbers(index.num_dst, heads, feats, seed=seed + 3, dtype=dtype)
        inputs["w"] = scale * numbers(heads, feats, seed=seed + 4, dtype=acc(dtype)) / feats**0.5
    return {name: None if x is None else x.to(index.src.device) for name, x in inputs.items()}


NAMES = {1: "attention", 2: "attention_v2"}
UNITS = 16  # an exponential multiplies the rounding of its score


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", [1, 2])
def test_error_is_at_most_twice_that_of_plain_torch(dtype, version, level):
    index = make_index(3001, 101, 67)
    for (heads, feats), z in itertools.product(SHAPES, ["edge", "head", "none"]):
        inputs = inputs_of(index, heads, feats, dtype, z, version=version)
        assert_as_good_as_torch(NAMES[version], index, inputs, dtype, UNITS, return_weights=heads != 4)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("edges", "num_src", "num_dst", "hub"), ODD_GRAPHS)
def test_odd_graphs(version, edges, num_src, num_dst, hub, level):
    index = make_index(edges, num_src, num_dst, hub=hub, ids=torch.int32)
    for heads, feats in ((1, 20), (4, 16), (8, 3)):
        inputs = inputs_of(index, heads, feats, version=version)
        assert_as_good_as_torch(NAMES[version], index, inputs, units=UNITS, return_weights=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("version", [1, 2])
def test_matches_the_twin_on_every_device(dtype, version, device):
    index = make_index(3001, 101, 67, device=device)
    inputs = inputs_of(index, 4, 20, dtype, "head", version=version)
    assert_as_good_as_torch(NAMES[version], index, inputs, dtype, UNITS, return_weights=True)


def test_is_gat_s_body_where_every_gate_is_open():
    dgl = pytest.importorskip("dgl")
    index = make_index(500, 40, 40)
    graph = dgl.graph((index.src, index.dst), num_nodes=40)
    inputs = inputs_of(index, 4, 8, z="none")
    h, el, er = inputs["h"], inputs["el"], inputs["er"]
    scores = torch.nn.functional.leaky_relu(dgl.ops.u_add_v(graph, el[..., None], er[..., None]), 0.2)
    want = dgl.ops.u_mul_e_sum(graph, h, dgl.ops.edge_softmax(graph, scores))
    torch.testing.assert_close(attention(index, h, el, er), want)
    torch.testing.assert_close(attention(index, h, el, er, torch.ones(500)), want)


# One list of sample inputs for the checks that torch itself offers: exact zeros among the gates, empty rows, a hub.
def samples(device="cpu", dtype=torch.float64):
    for version, (heads, feats, z), hub in itertools.product(
        [1, 2], [(1, 3, "edge"), (8, 2, "head"), (2, 3, "none"), (4, 1, "edge")], [False, True]
    ):
        index = make_index(40, 9, 13, hub=hub, ids=torch.int32 if hub else torch.int64, device=device)
        inputs = inputs_of(index, heads, feats, dtype, z, version=version)
        yield version, index, {k: x for k, x in inputs.items() if x is not None}


def test_gradients_by_finite_differences(device):
    for version, index, inputs in samples(device):
        if "z" in inputs:  # where no edge at all is kept the result jumps: keep one
            z = inputs["z"]
            starts = index.tensors.in_ptr
            z[index.tensors.in_edge[starts[:-1][starts.diff() > 0].long()].long()] = 0.7
            assert (z == 0).any()
        names, leaves = list(inputs), [x.requires_grad_() for x in inputs.values()]

        def function(*values, version=version, index=index, names=names):
            return getattr(ptd, NAMES[version])(index, **dict(zip(names, values)), return_weights=True)

        assert torch.autograd.gradcheck(function, leaves)


def test_opcheck_passes_on_every_sample(device):
    for version, index, inputs in samples(device, torch.float32):
        leaves = {k: x.requires_grad_() for k, x in inputs.items()}
        h, z, scores, slope = leaves["h"], leaves.get("z"), None, {"negative_slope": 0.2}
        if version == 2:
            args = (index.tensors, leaves["p"], leaves["q"], leaves["w"])
            torch.library.opcheck(ops.edge_scores.default, args, slope)
            plain = [x.detach() for x in args[1:]]
            scores = ops.edge_scores(index.tensors, *plain, **slope).requires_grad_()
            args = (torch.rand_like(scores).detach(), index.tensors, *plain)
            torch.library.opcheck(ops.edge_scores_backward.default, args, slope)
            flat = [leaves["p"].detach()[:, 0].requires_grad_(), leaves["q"].detach()[:, 0], leaves["w"].detach()[0]]
            torch.library.opcheck(ops.edge_scores.default, (index.tensors, *flat), slope)
        given = (h, leaves.get("el"), leaves.get("er"), scores, z)
        for weights in (False, True):
            torch.library.opcheck(ops.attention.default, (index.tensors, *given), {**slope, "weights": weights})
            plain = [None if x is None else x.detach() for x in given]
            saved = ops.attention(index.tensors, *plain, **slope, weights=weights)
            grad_weights = torch.rand_like(saved[3]) if weights else None
            args = (torch.rand_like(saved[0]), grad_weights, index.tensors, *plain, *saved)
            torch.library.opcheck(ops.attention_backward.default, args, {**slope, "need_z": z is not None})


def test_compiles_without_a_graph_break_for_any_number_of_edges(device):
    def loss(index, h, z, el, er, p, q, w):
        first, weights = attention(index, h, el, er, z, return_weights=True)
        return (first * attention_v2(index, h, p, q, w, z)).sum() + weights.square().sum()

    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    for edges in (300, 411):
        index = make_index(edges, 31, 17, device=device)
        grads = []
        for function in (loss, compiled):
            inputs = {**inputs_of(index, 2, 6), **inputs_of(index, 2, 6, version=2)}
            leaves = {k: x.requires_grad_() for k, x in inputs.items()}
            value = function(index, **leaves)
            value.backward()
            grads.append([value.detach(), *(x.grad for x in leaves.values())])
        for eager, fast in zip(*grads):
            torch.testing.assert_close(fast, eager)


@pytest.mark.parametrize("hub", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_results_do_not_depend_on_the_number_of_threads(version, hub, level, threads):
    index = make_index(50_000, 700, 300, hub=hub)
    for heads, feats, z in ((1, 24, "edge"), (4, 17, "head")):
        inputs = inputs_of(index, heads, feats, z=z, version=version)
        results = []
        for count in (1, 2, 3, 8):
            threads(count)
            results.append(outcome(getattr(ptd, NAMES[version]), index, inputs, return_weights=True))
        assert all(same_bits(results[0], other) for other in results[1:])


@pytest.mark.parametrize(
    ("heads", "feats", "z", "dtype", "version"),
    [
        (7, 60, "edge", torch.float32, 1),
        (7, 60, "head", torch.float32, 2),
        (3, 150, "head", torch.float32, 1),
        (3, 150, "edge", torch.float32, 2),
        (5, 160, "none", torch.bfloat16, 1),
    ],
)
def test_rows_too_wide_for_a_cache_give_what_their_heads_give(heads, feats, z, dtype, version, level, threads):
    index = make_index(140_000, 17_000, 17_000, hub=True)
    inputs = inputs_of(index, heads, feats, dtype, z, version=version)
    assert inputs["h"].numel() * inputs["h"].element_size() > 24 << 20
    grads = upstream(inputs["h"]), upstream(torch.empty(index.num_edges, heads), 2)

    def run(part=slice(None), exact=False):
        leaves = {}
        for name, x in inputs.items():
            if x is not None:
                cut = x[part] if name == "w" else x if x.dim() == 1 else x[:, part]
                leaves[name] = (cut.double() if exact else cut.clone()).requires_grad_()
        results = getattr(ptd, NAMES[version])(index, **leaves, return_weights=True)
        torch.autograd.backward(results, [x[:, part].to(y.dtype) for x, y in zip(grads, results)])
        return {"result": results[0].detach(), "weights": results[1].detach(), **{k: x.grad for k, x in leaves.items()}}

    results = []
    for count in (1, 2, 3, 8):
        threads(count)
        results.append(run())
    assert all(same_bits(results[0], other) for other in results[1:])
    alone, exact = [run(slice(head, head + 1)) for head in range(heads)], run(exact=True)
    for name, want in results[0].items():
        shared = name == "z" and z == "edge"
        found = sum(x[name] for x in alone) if shared else torch.cat([x[name] for x in alone], int(name != "w"))
        if name in ("result", "weights"):  # the forward takes whole heads at a time
            assert torch.equal(found, want), name
            continue
        # The backward takes all of a row: other sums, as exact as those of its heads.
        together, apart = ((x.double() - exact[name]).abs().max() for x in (want, found))
        unit = torch.finfo(want.dtype).eps * exact[name].abs().max()
        assert together <= 2 * apart + 4 * unit, name


def test_large_scores_are_stable(level):
    for hub in (False, True):
        index = make_index(5000, 60, 20, hub=hub)
        for version in (1, 2):
            inputs = inputs_of(index, 4, 8, version=version, scale=300.0)
            found = outcome(getattr(ptd, NAMES[version]), index, inputs, return_weights=True)
            assert all(x.isfinite().all() for x in found.values())
            sums = ptd.degrees(index, found["result 1"])
            torch.testing.assert_close(sums, (sums > 0).float(), rtol=1e-5, atol=0)


def test_a_node_with_no_kept_edge_gets_zeros_and_no_gradient(level):
    index = make_index(200, 20, 10)
    for version in (1, 2):
        inputs = inputs_of(index, 2, 6, version=version)
        inputs["z"][(index.dst == 3) | (index.dst == 7)] = 0
        found = outcome(getattr(ptd, NAMES[version]), index, inputs, return_weights=True)
        assert (found["result 0"][[3, 7]] == 0).all()
        assert (found["grad of z"][(index.dst == 3) | (index.dst == 7)] == 0).all()
        assert all(x.isfinite().all() for x in found.values())


def test_an_edge_far_above_the_kept_ones_has_a_finite_gradient(level):
    index = ptd.EdgeIndex(torch.tensor([0, 1]), torch.tensor([0, 0]), 2, 1)
    leaves: list[Any] = [torch.tensor(x) for x in ([1.0, 0.0], [[-500.0], [500.0]], [[[1.0]], [[2.0]]])]
    z, el, h = (x.requires_grad_() for x in leaves)
    out = attention(index, h, el, torch.zeros(1, 1), z)
    assert out.item() == 1
    out.sum().backward()
    assert z.grad[1] > 1e20
    assert all(x.grad.isfinite().all() for x in (z, el, h))


def test_rows_may_have_a_stride(level):
    index = make_index(700, 50, 40)
    for (heads, feats), dtype in itertools.product([(1, 19), (4, 16)], DTYPES):
        inputs = inputs_of(index, heads, feats, dtype)
        want = attention(index, inputs["h"], inputs["el"], inputs["er"], inputs["z"])
        wide = torch.cat([inputs["h"].flatten(1)] * 2, 1)[:, heads * feats :].unflatten(1, (heads, feats))
        assert not wide.is_contiguous()
        el = torch.stack([inputs["el"]] * 2, 2)[..., 0]
        assert torch.equal(attention(index, wide, el, inputs["er"], inputs["z"]), want)
        turned = inputs["h"].transpose(0, 2).contiguous().transpose(0, 2)
        assert torch.equal(attention(index, turned, el, inputs["er"], inputs["z"]), want)


def test_only_the_gradients_that_are_wanted():
    index = make_index(300, 20, 30)
    for version in (1, 2):
        want = outcome(getattr(ptd, NAMES[version]), index, inputs_of(index, 2, 6, version=version))
        for wanted in want:
            if not wanted.startswith("grad of "):
                continue
            inputs = inputs_of(index, 2, 6, version=version)
            leaf = inputs[wanted.removeprefix("grad of ")].requires_grad_()
            out = getattr(ptd, NAMES[version])(index, **inputs)
            out.backward(upstream(out))
            assert torch.equal(leaf.grad, want[wanted])


def test_weights_alone_have_a_gradient():
    index = make_index(300, 20, 30)
    inputs = inputs_of(index, 2, 3, torch.float64)

    def weights(module):
        leaves = {k: x.clone().requires_grad_() for k, x in inputs.items()}
        found = module.attention(index, **leaves, return_weights=True)[1]
        return torch.autograd.grad(found.square().sum(), [leaves[k] for k in ("el", "er", "z")])

    for got, want in zip(weights(ptd), weights(ptd.reference)):
        torch.testing.assert_close(got, want)


def test_weight_gradient_loses_no_digits_to_an_offset_of_p(level):
    index = make_index(20_000, 500, 500)
    inputs = inputs_of(index, 2, 8, version=2, z="none")
    inputs["p"], inputs["q"] = inputs["p"] + 1000, inputs["q"] - 1000
    doubles = {k: None if x is None else x.double() for k, x in inputs.items()}
    exact = outcome(ptd.reference.attention_v2, index, doubles)
    fused = outcome(ptd.attention_v2, index, inputs)
    torch.testing.assert_close(fused["grad of w"].double(), exact["grad of w"], rtol=1e-3, atol=1e-3)


def test_autocast_keeps_the_scores_in_float32():
    index = make_index(500, 40, 40)
    inputs = inputs_of(index, 2, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        h = (inputs["h"].flatten(1).requires_grad_() @ torch.eye(16)).unflatten(1, (2, 8))
        el = (h * 0.3).sum(-1)
        out = attention(index, h, el, el[:40], inputs["z"])
    assert h.dtype == out.dtype == torch.bfloat16
    assert out.isfinite().all()


def test_double_backward_is_refused():
    index = make_index(30, 5, 5)
    for version in (1, 2):
        inputs = {k: x.requires_grad_() for k, x in inputs_of(index, 2, 3, torch.float64, version=version).items()}
        out = getattr(ptd, NAMES[version])(index, **inputs)
        (grad,) = torch.autograd.grad(out.square().sum(), inputs["h"], create_graph=True)
        with pytest.raises(RuntimeError, match="attention has no second derivative"):
            grad.sum().backward()


def test_wrong_input_is_refused_with_the_argument_and_the_remedy():
    index = make_index(30, 5, 7)
    good: dict[str, Any] = inputs_of(index, 2, 4)
    change: Any
    for change, error, message in [
        ({"h": torch.randn(5, 8)}, ValueError, r"h must be \[N_src, heads, F\]"),
        ({"h": torch.randn(6, 2, 4)}, ValueError, "h has 6 rows.*5 sources"),
        ({"h": torch.randn(5, 3, 4)}, ValueError, "el must have 3 numbers for each of the sources"),
        ({"h": torch.ones(5, 2, 4, dtype=torch.int64), "z": None}, TypeError, "torch.float32|float32"),
        ({"el": torch.randn(6, 2)}, ValueError, "el has 6 entries.*5 sources"),
        ({"er": torch.randn(5, 2)}, ValueError, "er has 5 entries.*7 destinations"),
        ({"el": torch.randn(5, 2).double()}, TypeError, "el must be torch.float32"),
        ({"z": torch.rand(29)}, ValueError, "z has 29 entries.*30 edges"),
        ({"z": torch.rand(30, 3)}, ValueError, "z must have 2 numbers for each of the edges"),
        ({"negative_slope": -1.0}, ValueError, "negative_slope must be finite and not negative"),
    ]:
        with pytest.raises(error, match=message):
            attention(index, **{**good, **change})
    good = inputs_of(index, 2, 4, version=2)
    for change, error, message in [
        ({"p": torch.randn(5, 2, 3)}, ValueError, r"p must be \[N_src, heads, K\]"),
        ({"q": torch.randn(5, 2, 4)}, ValueError, "q has 5 rows.*7 destinations"),
        ({"q": torch.randn(7, 2, 4).double()}, TypeError, "q must be torch.float32 like p"),
        ({"w": torch.randn(2, 4).double()}, TypeError, "w must be torch.float32"),
    ]:
        with pytest.raises(error, match=message):
            attention_v2(index, **{**good, **change})
    with pytest.raises(ValueError, match="pass either el and er, or scores; got none of them"):
        ops.attention(index.tensors, torch.randn(5, 2, 4), *(None,) * 4, negative_slope=0.2, weights=False)


@settings(max_examples=800, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    st.tuples(st.integers(0, 120), st.integers(1, 30), st.integers(1, 30), st.booleans(), st.integers(0, 10**6)),
    st.integers(1, 9),
    st.integers(1, 20),
    st.sampled_from(["edge", "head", "none"]),
    st.sampled_from([1, 2]),
)
def test_random_graphs(threads, graph, heads, feats, z, version):
    threads(1)
    edges, num_src, num_dst, hub, seed = graph
    index = make_index(edges, num_src, num_dst, hub=hub, seed=seed)
    inputs = inputs_of(index, heads, feats, z=z, seed=seed, version=version)
    assert_as_good_as_torch(NAMES[version], index, inputs, units=UNITS, return_weights=seed % 2 == 0)

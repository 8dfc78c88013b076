"""The fused edge gate against its plain-torch twin in float64."""

import itertools

import pytest
import torch
from hypothesis import HealthCheck, given, settings, strategies as st

import dgl_ptdnet as ptd

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
NAMES = ("p", "q", "w", "c", "edge_bias")


def make_graph(edges, num_src, num_dst, *, seed=0, hub=False, ids=torch.int64, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(0, max(1, num_src), (edges,), generator=generator, dtype=ids)
    dst = torch.randint(0, max(1, num_dst), (edges,), generator=generator, dtype=ids)
    if hub:
        dst[: edges - edges // 8] = num_dst - 1
    return src.to(device), dst.to(device)


def make_inputs(edges, num_src, num_dst, hidden, *, dtype=torch.float32, seed=0, bias=True, device="cpu"):
    """p, q, w, c, edge_bias, all with gradient. Values are exact in ``dtype``, so float64 sees the same ones."""
    generator = torch.Generator().manual_seed(seed + 1)
    acc = torch.float64 if dtype == torch.float64 else torch.float32

    def draw(*size):
        return torch.randn(*size, generator=generator)

    p, q = draw(num_src, hidden).to(dtype), draw(num_dst, hidden).to(dtype)
    w = (draw(hidden) * 2 / hidden**0.5).to(acc)
    tensors = [p, q, w, torch.tensor(0.3, dtype=acc), draw(edges).to(acc) if bias else None]
    return [None if x is None else x.to(device).requires_grad_() for x in tensors]


def run(function, src, dst, inputs, grad_z, grad_penalty, **options):
    """Gates, penalty and gradients of every input that is there."""
    leaves = [None if x is None else x.detach().clone().requires_grad_() for x in inputs]
    z, penalty = function(src, dst, *leaves[:4], edge_bias=leaves[4], penalty=True, **options)
    loss = (z * grad_z.to(z.dtype)).sum() + grad_penalty * penalty
    loss.backward()
    results = {"z": z.detach(), "penalty": penalty.detach()}
    results.update({f"grad_{n}": x.grad for n, x in zip(NAMES, leaves) if x is not None})
    return results


def smooth_grad(src, dst, inputs, **options):
    """A gradient for z that is zero where float32 and float64 may stand on different sides of the clip."""
    doubles = [None if x is None else x.detach().double() for x in inputs]
    z = ptd.reference.edge_gate(src, dst, *doubles[:4], edge_bias=doubles[4], **options)
    zero = torch.zeros_like(z)
    if not len(z):
        return zero
    below = ptd.reference.edge_gate(src, dst, *doubles[:3], doubles[3] - 1e-4, edge_bias=doubles[4], **options)
    above = ptd.reference.edge_gate(src, dst, *doubles[:3], doubles[3] + 1e-4, edge_bias=doubles[4], **options)
    same_side = ((below > 0) == (above > 0)) & ((below < 1) == (above < 1))
    return torch.where(same_side, torch.linspace(-1, 1, len(z), device=z.device, dtype=z.dtype), zero)


def assert_as_good_as_torch(src, dst, inputs, dtype, **options):
    """At most twice plain torch's own error against float64, and a few units in the last place.

    Rows in half precision are computed with in float32, so plain float32 is what they are compared with; only their
    gradients are rounded to the rows' dtype. Sums over edges may cancel, and plain torch may be lucky: there the unit
    is that of a typical sum of as many terms. Parallel edges have one logit, so their rounding does not average out.
    """
    grad_z = smooth_grad(src, dst, inputs, **options)
    acc = torch.float64 if dtype == torch.float64 else torch.float32
    doubles, plain_inputs = ([None if x is None else x.detach().to(t) for x in inputs] for t in (torch.float64, acc))
    exact = run(ptd.reference.edge_gate, src, dst, doubles, grad_z, 0.01, **options)
    plain = run(ptd.reference.edge_gate, src, dst, plain_inputs, grad_z, 0.01, **options)
    fused = run(ptd.edge_gate, src, dst, inputs, grad_z, 0.01, **options)
    parallel = torch.stack([src, dst]).unique(dim=1, return_counts=True)[1].max().item() if len(src) else 1
    degrees = {f"grad_{n}": parallel * x.bincount().max().item() if len(x) else 0 for n, x in (("p", src), ("q", dst))}
    terms = {"z": 1, "grad_edge_bias": 1, "grad_w": 4 * parallel * len(src), **degrees}
    for name, want in exact.items():
        assert fused[name].shape == want.shape
        if not want.numel():
            continue
        scale = max(want.abs().max().item(), 0.4 * terms.get(name, parallel * len(src)) ** 0.5)
        ours, theirs = ((x[name].double() - want).abs().max().item() for x in (fused, plain))
        units = 4 * torch.finfo(fused[name].dtype).eps if acc == torch.float32 else 1e-13
        assert ours <= 2 * theirs + units * scale, f"{name}: {ours:.3g} against {theirs:.3g} of plain torch"


NOISE = (20260101, 5)
OPTIONS = [
    {"noise": NOISE, "tau": 0.7},
    {},
    {"noise": NOISE, "activation": "leaky_relu", "gamma": -0.3, "zeta": 1.2},
    {"noise": NOISE, "activation": "identity"},
]


def on(device, options):
    options = dict(options)
    if "noise" in options:
        options["noise"] = torch.tensor(options["noise"], device=device)
    return options


@pytest.mark.parametrize("hidden", [1, 2, 7, 8, 15, 16, 17, 32, 33, 64, 100, 128, 129, 256])
@pytest.mark.parametrize("dtype", DTYPES)
def test_error_is_at_most_twice_that_of_plain_torch(hidden, dtype, level):
    src, dst = make_graph(3001, 101, 67)
    inputs = make_inputs(3001, 101, 67, hidden, dtype=dtype)
    for options in OPTIONS:
        assert_as_good_as_torch(src, dst, inputs, dtype, **on("cpu", options))


@pytest.mark.parametrize("dtype", DTYPES)
def test_matches_the_twin_on_every_device(dtype, device):
    for hidden in (1, 16, 64, 100):
        src, dst = make_graph(3001, 101, 67, device=device)
        inputs = make_inputs(3001, 101, 67, hidden, dtype=dtype, device=device)
        for options in OPTIONS:
            assert_as_good_as_torch(src, dst, inputs, dtype, **on(device, options))


@pytest.mark.parametrize(
    ("edges", "num_src", "num_dst", "hub"),
    [
        (0, 5, 3, False),
        (0, 0, 0, False),
        (1, 1, 1, False),
        (63, 4, 900, False),
        (65, 900, 4, False),
        (2048, 50, 50, False),
        (2049, 50, 50, False),
        (9000, 30, 30, True),
        (9000, 1, 1, False),
        (9000, 5000, 7000, False),
    ],
)
@pytest.mark.parametrize("hidden", [1, 20, 64])
def test_odd_graphs(edges, num_src, num_dst, hub, hidden, level):
    src, dst = make_graph(edges, num_src, num_dst, hub=hub, ids=torch.int32)
    inputs = make_inputs(edges, num_src, num_dst, hidden)
    assert_as_good_as_torch(src, dst, inputs, torch.float32, noise=torch.tensor(NOISE))


# One list of sample inputs for the checks that torch itself offers.
def samples(device="cpu", dtype=torch.float64):
    for hidden, penalty, bias, options in itertools.product([1, 5, 16], [False, True], [False, True], OPTIONS):
        src, dst = make_graph(40, 9, 7, ids=torch.int32 if bias else torch.int64, device=device)
        inputs = make_inputs(40, 9, 7, hidden, dtype=dtype, bias=bias, device=device)
        yield src, dst, inputs, {**on(device, options), "penalty": penalty}


def test_gradients_by_finite_differences(device):
    for src, dst, inputs, options in samples(device):
        index = ptd.EdgeIndex(src, dst, 9, 7)

        def function(p, q, w, c, *rest, src=src, dst=dst, index=index, options=options):
            return ptd.edge_gate(src, dst, p, q, w, c, edge_bias=rest[0] if rest else None, index=index, **options)

        assert torch.autograd.gradcheck(function, [x for x in inputs if x is not None])


def test_opcheck_passes_on_every_sample(device):
    ops = torch.ops.dgl_ptdnet
    for src, dst, (p, q, w, c, edge_bias), options in samples(device, torch.float32):
        slope = {"relu": 0.0, "leaky_relu": 0.01, "identity": 1.0}[options.get("activation", "relu")]
        index = ptd.EdgeIndex(src, dst, 9, 7).tensors
        args = (index, p, q, w, c, edge_bias, options.get("noise"), None)
        settings = {"negative_slope": slope, "tau": 0.7, "gamma": -0.1, "zeta": 1.1}
        torch.library.opcheck(ops.edge_gate.default, args, {**settings, "penalty": options["penalty"], "save": True})


def test_opcheck_passes_for_the_index_and_the_backward(device):
    ops = torch.ops.dgl_ptdnet
    for src, dst, (p, q, w, c, edge_bias), options in list(samples(device))[::5]:
        torch.library.opcheck(ops.edge_index.default, (src, dst, 9, 7))
        index = ptd.EdgeIndex(src, dst, 9, 7).tensors
        p, q, w, c = (x.detach() for x in (p, q, w, c))
        settings = {"negative_slope": 0.0, "tau": 0.7, "gamma": -0.1, "zeta": 1.1}
        args = (index, p, q, w, c, None, options.get("noise"), None)
        saved = ops.edge_gate(*args, **settings, penalty=options["penalty"], save=True)
        z, penalty, mask, logit = saved
        grad_penalty = torch.ones_like(penalty) if options["penalty"] else None
        args = (torch.ones_like(z), grad_penalty, index, p, q, w, z, mask, logit)
        settings |= {"noisy": "noise" in options, "bias": edge_bias is not None}
        torch.library.opcheck(ops.edge_gate_backward.default, args, settings)


@pytest.mark.parametrize("with_index", [False, True])
def test_compiles_without_a_graph_break_for_any_number_of_edges(with_index, device):
    def loss(src, dst, p, q, w, c, noise, index):
        z, kept = ptd.edge_gate(src, dst, p, q, w, c, noise=noise, penalty=True, index=index)
        return (z * z).sum() + kept

    compiled = torch.compile(loss, fullgraph=True, dynamic=True, backend="aot_eager")
    noise = torch.tensor(NOISE, device=device)
    for edges in (300, 411):
        src, dst = make_graph(edges, 31, 17, device=device)
        index = ptd.EdgeIndex(src, dst, 31, 17) if with_index else None
        grads = []
        for function in (loss, compiled):
            inputs = make_inputs(edges, 31, 17, 16, bias=False, device=device)[:4]
            value = function(src, dst, *inputs, noise, index)
            value.backward()
            grads.append([value.detach(), *(x.grad for x in inputs)])
        for eager, fast in zip(*grads):
            torch.testing.assert_close(fast, eager)


def test_autocast_keeps_the_gates_in_float32():
    src, dst = make_graph(500, 40, 40)
    p, q, w, c, _ = make_inputs(500, 40, 40, 16)
    weight = torch.randn(16, 16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        low = p @ weight
        assert low.dtype == torch.bfloat16
        z = ptd.edge_gate(src, dst, low, low[:40], w, c)
        mixed = ptd.edge_gate(src, dst, low, q, w, c)  # one projection in each dtype: the wider one
    assert z.dtype == mixed.dtype == torch.float32
    torch.testing.assert_close(z, ptd.reference.edge_gate(src, dst, low.float(), low.float(), w, c))
    z.sum().backward()
    assert p.grad.dtype == torch.float32
    assert p.grad.abs().sum() > 0


def same_bits(a, b):
    return all((x is None and y is None) or torch.equal(x, y) for x, y in zip(a, b))


@pytest.mark.parametrize("hidden", [1, 24, 64])
@pytest.mark.parametrize("hub", [False, True])
def test_results_do_not_depend_on_the_number_of_threads(hidden, hub, level, threads):
    src, dst = make_graph(50_000, 700, 300, hub=hub)
    inputs = make_inputs(50_000, 700, 300, hidden)
    grad_z = torch.randn(50_000, generator=torch.Generator().manual_seed(3))
    results = []
    for count in (1, 2, 3, 8):
        threads(count)
        results.append(run(ptd.edge_gate, src, dst, inputs, grad_z, 0.1, noise=torch.tensor(NOISE)).values())
    assert all(same_bits(results[0], other) for other in results[1:])


@pytest.mark.parametrize("hidden", [1, 24, 64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_edge_has_the_same_gate_wherever_it_stands(hidden, dtype, level):
    edges = 4099
    src, dst = make_graph(edges, 90, 110)
    p, q, w, c, bias = (x.detach() for x in make_inputs(edges, 90, 110, hidden, dtype=dtype))
    noise = torch.tensor(NOISE)
    z = ptd.edge_gate(src, dst, p, q, w, c, edge_bias=bias, noise=noise)
    order = torch.randperm(edges, generator=torch.Generator().manual_seed(1))
    for part in (order, order[: edges // 3], torch.argsort(dst, stable=True), torch.tensor([17])):
        s, d = src[part], dst[part]
        for index in (None, ptd.EdgeIndex(s, d, 90, 110)):
            moved = ptd.edge_gate(s, d, p, q, w, c, edge_bias=bias[part], noise=noise, edge_ids=part, index=index)
            assert torch.equal(moved, z[part])


def test_edges_with_one_id_share_their_draw():
    src, dst = torch.tensor([0, 1, 0, 1]), torch.tensor([1, 0, 1, 0])
    p = q = torch.zeros(2, 4)
    noise = torch.tensor(NOISE)
    z = ptd.edge_gate(
        src, dst, p, q, torch.ones(4), torch.tensor(0.0), noise=noise, edge_ids=torch.tensor([5, 5, 6, 6])
    )
    assert z[0] == z[1]
    assert z[2] == z[3]
    assert z[0] != z[2]


def test_noise_is_philox_4x32_10():
    # The known answer of the Random123 distribution for a counter and key of zeros.
    bits = ptd.reference.philox_bits(torch.arange(4), torch.tensor([0, 0]))
    assert [hex(x) for x in bits.tolist()] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


@pytest.mark.parametrize("ids", [None, "huge"])
def test_draws_are_those_of_the_twin_for_any_id_seed_and_offset(ids, level):
    edges = 1000
    src = dst = torch.zeros(edges, dtype=torch.int64)
    one, zero = torch.zeros(1, 3, dtype=torch.float32), torch.tensor(0.0)
    generator = torch.Generator().manual_seed(5)
    edge_ids = None if ids is None else torch.randint(0, 2**62, (edges,), generator=generator)
    for noise in (torch.tensor([-1, 2**62]), torch.tensor([2**63 - 1, -(2**63)])):
        options = {"noise": noise, "edge_ids": edge_ids, "gamma": -1e-6, "zeta": 1 + 1e-6}
        z = ptd.edge_gate(src, dst, one, one, torch.ones(3), zero, **options)
        want = ptd.reference.edge_gate(src, dst, one.double(), one.double(), torch.ones(3), zero.double(), **options)
        torch.testing.assert_close(z.double(), want, rtol=0, atol=3e-7)


def test_a_stale_or_foreign_index_is_refused():
    src, dst = make_graph(100, 10, 10)
    inputs = make_inputs(100, 10, 10, 8)[:4]
    index = ptd.EdgeIndex(src, dst, 10, 10)
    ptd.edge_gate(src.clone(), dst.int(), *inputs, index=index)  # the same edges in other tensors
    with pytest.raises(ValueError, match="src differs"):
        ptd.edge_gate(dst, src, *inputs, index=index)
    with pytest.raises(ValueError, match="index was made for"):
        ptd.edge_gate(src[1:], dst[1:], *inputs, index=index)
    with pytest.raises(ValueError, match="p has 9 rows, but the index was made for 10 sources"):
        ptd.edge_gate(src, dst, inputs[0][:9], *inputs[1:], index=index)
    src[0] = (src[0] + 1) % 10
    with pytest.raises(ValueError, match="changed in place"):
        ptd.edge_gate(src, dst, *inputs, index=index)


def test_rows_may_have_a_stride(level):
    src, dst = make_graph(700, 50, 50)
    for hidden, dtype in itertools.product([1, 16, 19, 64], DTYPES):
        acc = torch.float64 if dtype == torch.float64 else torch.float32
        both = torch.randn(50, 2 * hidden, dtype=acc).to(dtype).requires_grad_()
        w, c = torch.randn(hidden, dtype=acc), torch.tensor(0.1, dtype=acc)
        z = ptd.edge_gate(src, dst, both[:, :hidden], both[:, hidden:], w, c)
        assert torch.equal(z, ptd.edge_gate(src, dst, both[:, :hidden].clone(), both[:, hidden:].clone(), w, c))
        columns = both.detach().t().contiguous().t()  # columns one after another: copied
        assert torch.equal(z, ptd.edge_gate(src, dst, columns[:, :hidden], columns[:, hidden:], w, c))
        z.sum().backward()
        assert both.grad.shape == both.shape


def test_non_contiguous_edges_bias_and_ids():
    src, dst = make_graph(400, 20, 20)
    p, q, w, c, bias = make_inputs(400, 20, 20, 8)
    pairs, twice = torch.stack([src, dst], 1), torch.stack([bias.detach()] * 2, 1)
    ids = torch.arange(800)[::2]
    noise = torch.tensor([[1, 0], [2, 0]])[:, 0]
    got = ptd.edge_gate(*pairs.unbind(1), p, q, w, c, edge_bias=twice[:, 0], edge_ids=ids, noise=noise)
    want = ptd.edge_gate(src, dst, p, q, w, c, edge_bias=bias, edge_ids=ids.clone(), noise=noise.clone())
    assert torch.equal(got, want)


def test_nan_comes_out_as_nan_and_infinity_as_a_closed_or_open_gate(level):
    src, dst = torch.arange(40) % 8, torch.arange(40) % 5
    for hidden, dtype, noise in itertools.product([1, 6, 64], DTYPES, [None, torch.tensor(NOISE)]):
        acc = torch.float64 if dtype == torch.float64 else torch.float32
        p = torch.zeros(8, hidden, dtype=dtype)
        p[3, 0], p[4, hidden - 1], p[5, 0] = float("nan"), float("inf"), -float("inf")
        bias = torch.zeros(40, dtype=acc)
        bias[0], bias[1] = float("inf"), -float("inf")
        leaves = [p.requires_grad_(), torch.zeros(5, hidden, dtype=dtype, requires_grad=True)]
        leaves += [torch.ones(hidden, dtype=acc, requires_grad=True), torch.zeros((), dtype=acc, requires_grad=True)]
        z, kept = ptd.edge_gate(src, dst, *leaves, edge_bias=bias, noise=noise, penalty=True)
        assert z[src == 3].isnan().all()
        assert not z[src != 3].isnan().any()
        assert (z[src == 4] == 1).all()
        assert z[0] == 1
        assert z[1] == 0
        assert kept.isnan()
        z[src != 3].sum().backward()
        grad_p = leaves[0].grad
        assert (grad_p[4] == 0).all()
        assert not grad_p[[0, 1, 2, 6, 7]].isnan().any()


def test_double_backward_is_refused():
    src, dst = make_graph(30, 5, 5)
    p, q, w, c, _ = make_inputs(30, 5, 5, 4, dtype=torch.float64)
    (grad,) = torch.autograd.grad(ptd.edge_gate(src, dst, p, q, w, c).sum(), p, create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivative"):
        grad.sum().backward()


def test_a_backward_that_nothing_was_kept_for_is_refused():
    src, dst = make_graph(30, 5, 5)
    p, q, w, c, _ = make_inputs(30, 5, 5, 4)
    index = ptd.EdgeIndex(src, dst, 5, 5).tensors
    settings = {"negative_slope": 0.0, "tau": 1.0, "gamma": -0.1, "zeta": 1.1, "penalty": False, "save": False}
    z = torch.ops.dgl_ptdnet.edge_gate(index, p, q, w, c, None, None, None, **settings)[0]
    with pytest.raises(RuntimeError, match=r"saved nothing for the backward\. Call it with gradients enabled"):
        z.sum().backward()


def test_backward_can_run_twice():
    src, dst = make_graph(300, 20, 20)
    p, q, w, c, _ = make_inputs(300, 20, 20, 16)
    z = ptd.edge_gate(src, dst, p, q, w, c)
    first = torch.autograd.grad(z.sum(), [p, q, w, c], retain_graph=True)
    assert same_bits(first, torch.autograd.grad(z.sum(), [p, q, w, c]))


def test_only_the_gradients_that_are_wanted(level):
    src, dst = make_graph(300, 20, 20)
    for k in range(5):
        inputs = make_inputs(300, 20, 20, 16)
        for j, x in enumerate(inputs):
            x.requires_grad_(j == k)
        ptd.edge_gate(src, dst, *inputs[:4], edge_bias=inputs[4]).sum().backward()
        assert [x.grad is not None for x in inputs] == [j == k for j in range(5)]


def test_penalty_alone_has_a_gradient():
    src, dst = make_graph(300, 20, 20)
    inputs = make_inputs(300, 20, 20, 16, dtype=torch.float64)
    want = run(ptd.reference.edge_gate, src, dst, inputs, torch.zeros(300), 1.0)
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    _, penalty = ptd.edge_gate(src, dst, *leaves[:4], edge_bias=leaves[4], penalty=True)
    penalty.backward()
    for name, leaf in zip(NAMES, leaves):
        torch.testing.assert_close(leaf.grad, want[f"grad_{name}"])


def test_weight_gradient_loses_no_digits_to_an_offset_of_p(level):
    src, dst = make_graph(20_000, 500, 500)
    p, q, w, c, _ = (None if x is None else x.detach() for x in make_inputs(20_000, 500, 500, 16, bias=False))
    p, q = p + 1000, q - 1000
    grad_z = torch.randn(20_000, generator=torch.Generator().manual_seed(1))
    inputs = [p, q, w, c, None]
    exact = run(ptd.reference.edge_gate, src, dst, [None if x is None else x.double() for x in inputs], grad_z, 0.0)
    fused = run(ptd.edge_gate, src, dst, inputs, grad_z, 0.0)
    assert (fused["grad_w"] - exact["grad_w"]).abs().max() <= 2e-5 * exact["grad_w"].abs().max()


WRONG = {
    "src id too large": ({"src": torch.tensor([0, 9])}, IndexError, r"src\[1\] = 9 is out of range"),
    "dst id negative": ({"dst": torch.tensor([-1, 0])}, IndexError, r"dst\[0\] = -1 is out of range"),
    "lengths differ": ({"src": torch.tensor([0])}, ValueError, "src and dst must be 1-D and of one length"),
    "float ids": ({"src": torch.tensor([0.0, 1.0])}, TypeError, "int32 or both int64"),
    "mixed id types": ({"src": torch.tensor([0, 1], dtype=torch.int32)}, TypeError, "int32 or both int64"),
    "p has one dimension": ({"p": torch.zeros(3)}, ValueError, r"p must be \[N, H\]"),
    "no columns": ({"p": torch.zeros(3, 0), "q": torch.zeros(3, 0), "w": torch.zeros(0)}, ValueError, "H >= 1"),
    "H differs": ({"q": torch.zeros(3, 5)}, ValueError, "must agree in H"),
    "w has another H": ({"w": torch.zeros(5)}, ValueError, r"w must be \[H\] with H = 4"),
    "identity, w has another H": (
        {"w": torch.zeros(5), "activation": "identity"},
        ValueError,
        r"w must be \[H\] with H = 4",
    ),
    "c has two numbers": ({"c": torch.zeros(2)}, ValueError, "c must be one number"),
    "integer p": (
        {"p": torch.zeros(3, 4, dtype=torch.int64), "w": torch.zeros(4)},
        TypeError,
        "p must be float32",
    ),
    "mixed dtypes": ({"q": torch.zeros(3, 4, dtype=torch.float64)}, TypeError, "q must be torch.float32 like p"),
    "w is double": ({"w": torch.zeros(4, dtype=torch.float64)}, TypeError, "w must be torch.float32"),
    "edge_bias length": (
        {"edge_bias": torch.zeros(3)},
        ValueError,
        "edge_bias has 3 entries, but the index has 2 edges",
    ),
    "edge_ids dtype": (
        {"edge_ids": torch.tensor([0, 1], dtype=torch.int32)},
        TypeError,
        "edge_ids must be torch.int64",
    ),
    "edge_ids length": ({"edge_ids": torch.tensor([0])}, ValueError, "edge_ids must be"),
    "noise shape": ({"noise": torch.tensor([1, 2, 3])}, ValueError, r"noise must be int64\[2\]"),
    "noise dtype": ({"noise": torch.tensor([1.0, 2.0])}, TypeError, "noise must be torch.int64"),
    "tau": ({"tau": 0.0}, ValueError, "tau must be positive"),
    "tau is NaN": ({"tau": float("nan")}, ValueError, "tau must be positive"),
    "gamma": ({"gamma": 0.0}, ValueError, "gamma < 0"),
    "zeta": ({"zeta": 1.0}, ValueError, "zeta > 1"),
    "zeta is infinite": ({"zeta": float("inf")}, ValueError, "finite"),
    "activation": ({"activation": "gelu"}, ValueError, "activation must be one of 'relu'"),
    "mixed devices": ({"q": torch.zeros(3, 4, device="meta")}, ValueError, "one device"),
    "not a tensor": ({"c": 0.5}, TypeError, "c must be a torch.Tensor"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_named(case):
    change, error, message = WRONG[case]
    arguments = {
        "src": torch.tensor([0, 1]),
        "dst": torch.tensor([1, 2]),
        "p": torch.zeros(3, 4),
        "q": torch.zeros(3, 4),
    }
    arguments |= {"w": torch.zeros(4), "c": torch.tensor(0.0), "noise": torch.tensor([1, 2]), **change}
    with pytest.raises(error, match=message):
        ptd.edge_gate(**arguments)


def test_an_unknown_level_is_refused(monkeypatch):
    monkeypatch.setenv("DGL_PTDNET_CPU_LEVEL", "sse9")
    with pytest.raises(ValueError, match="must be portable, avx2 or avx512"):
        ptd.build_info()


@settings(max_examples=2000, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_graphs(data):
    """2,000 graphs: values and gradients are the twin's, at a level drawn with the graph."""
    num_src, num_dst = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40))
    edges, hidden = data.draw(st.integers(0, 300)), data.draw(st.integers(1, 70))
    seed, hub = data.draw(st.integers(0, 2**31)), data.draw(st.booleans())
    dtype = data.draw(st.sampled_from(DTYPES))
    options = dict(data.draw(st.sampled_from(OPTIONS)))
    src, dst = make_graph(edges, num_src, num_dst, seed=seed, hub=hub)
    inputs = make_inputs(edges, num_src, num_dst, hidden, dtype=dtype, seed=seed, bias=data.draw(st.booleans()))
    if data.draw(st.booleans()):
        options["edge_ids"] = torch.randint(0, 2**40, (edges,), generator=torch.Generator().manual_seed(seed))
    assert_as_good_as_torch(src, dst, inputs, dtype, **on("cpu", options))

"""The CUDA kernels of message passing, executed on the CPU by tests/emulation, against the twins in float64."""

from __future__ import annotations

import platform
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from emulation.apart import Fault, Outcome, outcomes_of_faults, run_apart
from emulation.build import build
from emulation.library import DTYPES, Draws, LaunchShape, bits_equal
from emulation.message import OPERATORS, POWERS, MessageCase, MessageKernels
from torch import Tensor

from dgl_ptdnet import reference

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("g++") is None, reason="the emulator needs x86-64 and g++"
)

SHAPES = {"default": (256, 8, 2048), "narrow": (32, 1, 2048), "few blocks": (64, 2, 3), "wide": (128, 4, 40)}
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2**-7, torch.float16: 2**-9}


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> MessageKernels:
    return MessageKernels(build(tmp_path_factory.mktemp("emulated messages") / "plain", part="message"))


def make_case(
    heads: int,
    feats: int,
    edges: int = 200,
    nodes: tuple[int, int] = (30, 24),
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    z: str = "by head",
    **changes: object,
) -> MessageCase:
    draws = Draws(seed, edges, dtype)
    numbers, ids = draws.numbers, draws.ids
    gates = torch.rand((edges, heads), generator=draws.random, dtype=torch.float64).to(draws.acc)
    gates[torch.rand((edges, heads), generator=draws.random) < 0.3] = 0  # exact zeros, and ones
    gates[torch.rand((edges, heads), generator=draws.random) < 0.2] = 1
    case = MessageCase(
        src=ids(nodes[0]),
        dst=ids(nodes[1]),
        h=numbers(nodes[0], heads, feats, dtype=dtype),
        q=numbers(nodes[1], heads, feats, dtype=dtype),
        z={"by head": gates, "one": gates[:, 0].contiguous(), "none": None}[z],
        el=numbers(nodes[0], heads),
        er=numbers(nodes[1], heads),
        scores=3 * numbers(edges, heads),
        w=numbers(heads, feats) / feats**0.5,
        grad=numbers(nodes[1], heads, feats, dtype=dtype),
        grad_edges=numbers(edges, heads),
    )
    return replace(case, **changes)  # type: ignore[arg-type]


def twin(case: MessageCase) -> dict[str, Tensor]:
    """What each operator gives, and the gradients of its inputs, in float64."""
    index = SimpleNamespace(src=case.src, dst=case.dst, num_src=len(case.h), num_dst=len(case.q))
    grad, grad_edges = case.grad.double(), case.grad_edges.double()
    expected: dict[str, Tensor] = {}

    def leaf(x: Tensor) -> Tensor:
        return x.detach().double().clone().requires_grad_()

    def note(operator: str, outputs: dict[str, Tensor], loss: Tensor, **leaves: Tensor | None) -> None:
        inputs = {name: x for name, x in leaves.items() if x is not None}
        grads = torch.autograd.grad(loss + 0 * sum(x.sum() for x in inputs.values()), list(inputs.values()))
        outputs |= {f"grad_{name}": g for name, g in zip(inputs, grads)}
        expected.update({f"{operator}: {name}": x.detach() for name, x in outputs.items()})

    if "aggregate" in case.operators:
        h, z = leaf(case.h), None if case.wide_z is None else leaf(case.wide_z)
        out = reference.aggregate(index, h, z)
        note("aggregate", {"out": out}, (out * grad).sum(), h=h, z=z)
        expected["aggregate: grad_h alone"] = expected["aggregate: grad_h"]
    if "maximum" in case.operators:
        h, z = leaf(case.h.flatten(1)), None if case.flat_z is None else leaf(case.flat_z)
        out = reference.maximum(index, h, z)
        note("maximum", {"out": out}, (out * grad.flatten(1)).sum(), h=h, z=z)
    if "degrees" in case.operators:
        z = leaf(case.grad_edges.abs() if case.wide_z is None else case.wide_z)
        degrees = [reference.degrees(index, z, by) for by in ("src", "dst")]
        left, right = POWERS[case.norm]
        bounded = [degree.clamp(min=case.floor) for degree in degrees]
        scales = [torch.where(x == 0, 0, torch.where(x == 0, 1, x) ** -y) for x, y in zip(bounded, (left, right))]
        w = z * scales[0][case.src] * scales[1][case.dst]
        outputs = {"out_deg": degrees[0], "in_deg": degrees[1], "w": w, "spread": case.el.double()[case.src]}
        note("degrees", outputs, (w * grad_edges).sum(), z=z)
    for operator in ("attention", "attention of scores"):
        if operator not in case.operators:
            continue
        h, el, er, scores = (leaf(x) for x in (case.h, case.el, case.er, case.scores))
        z = None if case.z is None else leaf(case.z)
        if operator == "attention":
            out, weights = reference.attention(index, h, el, er, z, case.negative_slope, return_weights=True)
            note(operator, {"out": out, "weights": weights}, (out * grad).sum(), h=h, el=el, er=er, z=z)
        else:
            out, weights = reference._attend(index, h, scores, z, True)
            loss = (out * grad).sum() + (weights * grad_edges).sum()
            note(operator, {"out": out, "weights": weights}, loss, h=h, scores=scores, z=z)
    if "scores" in case.operators:
        p, q, w = leaf(case.h), leaf(case.q), leaf(case.w)
        x = torch.nn.functional.leaky_relu(p[case.src] + q[case.dst], case.negative_slope)
        scores = (x * w).sum(2)
        note("scores", {"scores": scores}, (scores * grad_edges).sum(), p=p, q=q, w=w)
    return expected


def check_arg(case: MessageCase, arg: Tensor) -> bool:
    """Whether maxima came over the first of the edges that have them."""
    z = torch.ones(len(case.src)) if case.flat_z is None else case.flat_z
    for row in range(len(case.q)):
        edges = ((case.dst == row) & (z > 0)).nonzero()[:, 0]
        if len(edges) == 0:
            if not bool((arg[row] == -1).all()):
                return False
            continue
        acc = torch.float64 if case.h.dtype == torch.float64 else torch.float32
        messages = case.h.flatten(1)[case.src[edges]].to(acc) * z[edges, None].to(acc)
        first = (messages == messages.amax(0)).int().argmax(0)
        if not torch.equal(arg[row].long(), edges[first]):
            return False
    return True


def betas(case: MessageCase, operator: str, found: dict[str, Tensor]) -> Tensor:
    """[E, heads] what the softmax makes of an edge's score before its gate."""
    scores = case.scores.double()
    if operator == "attention":
        scores = case.el.double()[case.src] + case.er.double()[case.dst]
        scores = torch.nn.functional.leaky_relu(scores, case.negative_slope)
    highest, total = (found[f"{operator}: {name}"].double()[case.dst] for name in ("max", "sum"))
    return torch.where(total == 0, 0, torch.exp(scores - highest) / total)


def difference(case: MessageCase, found: dict[str, Tensor]) -> str | None:
    """What is wrong with the kernels' results, if anything."""
    expected = twin(case)
    for name, x in found.items():
        if name == "maximum: arg":
            if not check_arg(case, x):
                return "arg is not the first edge of the maximum"
            continue
        if name.endswith((": max", ": sum")):  # the weights are made of them
            if not bool(x.isfinite().all()):
                return f"{name} is not written"
            continue
        y, x, tolerance = expected[name].reshape(x.shape), x.double(), TOLERANCE[x.dtype]
        operator, _, result = name.partition(": ")
        floor = 1.0
        if (
            operator.startswith("attention")
            and result.startswith("grad")
            and x.numel()
            and result != "grad_h"
            and len(case.q)
        ):
            # It starts from the product of the rounded output with its gradient, and a shut edge may enlarge that.
            tolerance = TOLERANCE[case.h.dtype]
            floor = max(1.0, float((expected[f"{operator}: out"] * case.grad.double()).abs().sum(2).max()))
            if result == "grad_z":
                beta = betas(case, operator, found)
                beta = beta.sum(1) if x.dim() == 1 else beta
                x, y = x / beta.clamp(min=1), y / beta.clamp(min=1)
        scale = max(floor, float(y.abs().max())) if x.numel() else 1.0
        error = float((x - y).abs().max()) if x.numel() else 0.0
        if not error <= tolerance * scale:
            return f"{name} is off by {error:.3g} at a size of {scale:.3g}"
    return None


def check(kernels: MessageKernels, case: MessageCase, shape: str = "default", seed: int = 0, resident: int = 1) -> None:
    assert difference(case, kernels(case, LaunchShape(*SHAPES[shape]), seed, resident)) is None


@pytest.mark.parametrize("feats", [1, 3, 16, 33, 64])
@pytest.mark.parametrize("heads", [1, 4, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kernels_match_the_twins(kernels: MessageKernels, dtype: torch.dtype, heads: int, feats: int) -> None:
    check(kernels, make_case(heads, feats, dtype=dtype, edges=120), "wide")


@pytest.mark.parametrize("feats", [256, 264, 513])
def test_rows_wider_than_a_warp(kernels: MessageKernels, feats: int) -> None:
    for dtype in (torch.float32, torch.float16):
        check(kernels, make_case(2, feats, edges=60, nodes=(7, 6), dtype=dtype), "narrow", seed=1, resident=2)


@pytest.mark.parametrize("z", ["by head", "one", "none"])
def test_gates_by_head_for_all_heads_or_none(kernels: MessageKernels, z: str) -> None:
    for heads in (1, 4):
        check(kernels, make_case(heads, 8, z=z))


@pytest.mark.parametrize("norm", POWERS)
def test_normalisations(kernels: MessageKernels, norm: str) -> None:
    for floor in (0.0, 1e-6, 1.0, 3.0):
        check(kernels, make_case(3, 1, norm=norm, floor=floor, operators=("degrees",)))


@pytest.mark.parametrize("heads", [1, 2, 9])
def test_sums_of_more_heads_than_a_thread_has(kernels: MessageKernels, heads: int) -> None:
    check(kernels, make_case(heads, 1, edges=400, operators=("degrees",)), "narrow", seed=2, resident=3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("heads", "feats"), [(1, 1), (4, 3), (2, 33)])
def test_no_bit_depends_on_the_order_of_threads_and_blocks(
    kernels: MessageKernels, shape: str, heads: int, feats: int
) -> None:
    case = make_case(heads, feats, edges=300, nodes=(5, 9))
    first = kernels(case, LaunchShape(*SHAPES[shape]))
    assert difference(case, first) is None
    for seed in range(1, 4):
        assert bits_equal(first, kernels(case, LaunchShape(*SHAPES[shape]), seed, resident=seed))


@pytest.mark.parametrize("edges", [1, 7, 8, 9, 63, 64, 65, 255, 256, 257])
def test_sizes_around_those_of_tasks_and_blocks(kernels: MessageKernels, edges: int) -> None:
    check(kernels, make_case(1, 8, edges))
    check(kernels, make_case(2, 40, edges), "narrow")


@pytest.mark.parametrize("hub", ["src", "dst", "both"])
def test_a_hub_with_all_edges_is_split(kernels: MessageKernels, hub: str) -> None:
    for seed, (heads, feats) in enumerate([(1, 1), (1, 64), (4, 16)]):
        case = make_case(heads, feats, edges=700, nodes=(9, 9))
        if hub != "dst":
            case.src[:] = 4
        if hub != "src":
            case.dst[:] = 8
        for shape in ("default", "narrow"):
            check(kernels, case, shape, seed, resident=2)


def test_no_edges_and_no_nodes(kernels: MessageKernels) -> None:
    for nodes in ((5, 7), (0, 0), (0, 3), (3, 0)):
        for heads, feats in ((1, 1), (4, 3), (1, 64)):
            check(kernels, make_case(heads, feats, 0, nodes))


@pytest.mark.parametrize("nodes", [(400, 2), (2, 400), (1, 1), (1500, 900)])
def test_blocks_and_nodes_without_edges(kernels: MessageKernels, nodes: tuple[int, int]) -> None:
    for feats in (1, 33):
        check(kernels, make_case(2, feats, edges=50, nodes=nodes), "few blocks")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_may_be_parts_of_others_or_start_anywhere(kernels: MessageKernels, dtype: torch.dtype) -> None:
    for heads, feats in ((1, 1), (2, 8), (1, 33)):
        case = make_case(heads, feats, 100, (20, 20), dtype=dtype)
        aligned, width = kernels(case), heads * feats
        assert difference(case, aligned) is None
        for row, start in ((3 * width, 0), (3 * width + 1, 0), (3 * width + 8, 1)):
            together = torch.full((20, row), float("nan"), dtype=dtype)
            parts = [together[:, start + i * width : start + (i + 1) * width] for i in range(3)]
            for part, x in zip(parts, (case.h, case.q, case.grad)):
                part.copy_(x.flatten(1))
            h, q, grad = (part.unflatten(1, (heads, feats)) for part in parts)
            assert bits_equal(kernels(replace(case, h=h, q=q, grad=grad)), aligned)


def test_large_scores_stay_finite(kernels: MessageKernels) -> None:
    case = make_case(2, 8, operators=("attention", "attention of scores"))
    case.el.mul_(1000), case.er.mul_(1000)
    # Where a destination keeps nothing near a shut edge's score, that edge's gradient is cut: no twin to compare.
    assert all(bool(x.isfinite().all()) for x in kernels(case).values())
    check(kernels, replace(case, z=None, scores=case.scores * 300))


def test_a_destination_that_keeps_no_edge_gets_zeros(kernels: MessageKernels) -> None:
    case = make_case(2, 16, edges=300, nodes=(10, 8))
    assert case.z is not None
    case.z[case.dst == 3] = 0
    check(kernels, case, "narrow", seed=1, resident=2)
    found = kernels(case)
    for name in ("aggregate: out", "maximum: out", "attention: out", "attention: sum", "attention of scores: max"):
        assert (found[name][3] == 0).all()


def test_the_first_of_equal_maxima_and_nan_win(kernels: MessageKernels) -> None:
    case = make_case(1, 5, edges=200, nodes=(6, 3), z="none", operators=("maximum",))
    case.h[:] = case.h.round()
    check(kernels, case, "narrow", seed=1, resident=2)
    case.h[2, 0, 3] = float("nan")
    out = kernels(case, LaunchShape(32, 1))["maximum: out"]
    touched = torch.zeros(3, dtype=torch.bool)
    touched[case.dst[case.src == 2]] = True
    assert torch.equal(out.isnan(), touched[:, None] & (torch.arange(5) == 3))


def test_more_heads_than_a_grid_has_layers_are_refused(kernels: MessageKernels) -> None:
    case = make_case(65_536, 1, edges=1, nodes=(1, 1))
    for operator in ("aggregate", "attention", "scores"):
        with pytest.raises(RuntimeError, match="must be at most 65,535; got 65536"):
            kernels(replace(case, operators=(operator,)))


def test_random_graphs(kernels: MessageKernels) -> None:
    random = torch.Generator().manual_seed(7)

    def choose(low: int, high: int) -> int:
        return int(torch.randint(low, high, (), generator=random))

    for seed in range(40):
        case = make_case(
            choose(1, 10),
            choose(1, 40),
            choose(0, 200),
            (choose(1, 50), choose(1, 50)),
            dtype=list(DTYPES)[choose(0, 4)],
            seed=seed,
            z=("by head", "one", "none")[choose(0, 3)],
            norm=list(POWERS)[choose(0, 4)],
        )
        check(kernels, case, list(SHAPES)[choose(0, 4)], choose(0, 9), resident=2)


# ---- sanitizers and deliberate faults ----------------------------------------------------------------------------


def calls_for(widths: tuple[tuple[int, int], ...]) -> list[tuple[MessageCase, LaunchShape, int, int]]:
    """Few and small, but with every way through the kernels: whole and ragged rows, hubs, gaps, slabs."""
    calls = []
    for i, (heads, feats) in enumerate(widths):
        case = make_case(heads, feats, edges=90 + i, nodes=(12, 40), z=("by head", "one")[i % 2])
        case.dst[20:60] = 3
        case.src[10:70] = 5
        calls.append((case, (LaunchShape(64, 1), LaunchShape(32, 2))[i % 2], 1 + i, 2))
    return calls


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizers_find_nothing(tmp_path: Path, sanitizer: str) -> None:
    calls = calls_for(((1, 1), (4, 3), (2, 33), (1, 264)))
    if sanitizer == "address":
        calls += [(make_case(2, f, 40, dtype=t), LaunchShape(), 1, 1) for t in DTYPES for f in (5, 24)]
    (outcome,) = run_apart([build(tmp_path / "build", sanitizer, part="message")], sanitizer, calls, difference)
    assert outcome.caught_by is None, outcome.text


ROWS, PIECES = "rows.cuh", "pieces.cuh"
AGGREGATE, ATTENTION, DEGREES = "aggregate.cu", "attention.cu", "degrees.cu"
FAULTS = {
    "none": Fault(PIECES, "place ^ width", "place ^ width", None),
    "dropped fence before pieces meet": Fault(
        PIECES,
        "        __threadfence();  // after the barrier, so that it covers the writes of all lanes\n",
        "",
        "the thread sanitizer",
        "thread",
    ),
    "+= for an atomic": Fault(PIECES, "atomicAdd(meeting, 1)", "(*meeting)++", "the thread sanitizer", "thread"),
    "row that ends with a task counted into the next": Fault(
        ROWS, "tasks = (row_end - 1) / tile", "tasks = row_end / tile", "the twin"
    ),
    "rows without edges left unwritten": Fault(
        ROWS, "== __ldg(side.ptr + row + 1));", "> __ldg(side.ptr + row + 1));", "the twin"
    ),
    "edge past the end": Fault(
        ROWS, "if (first + lane < end) mine", "if (first + lane <= end) mine", "the address sanitizer", "address"
    ),
    "z of the wrong head": Fault(AGGREGATE, "__ldg(args.z + e * args.heads + head)", "__ldg(args.z + e)", "the twin"),
    "wrong lane in a dot product": Fault(
        AGGREGATE, "__shfl_xor_sync(group, dot, step)", "__shfl_xor_sync(group, dot, step / 2)", "the twin"
    ),
    "maximum that later equal ones take": Fault(
        AGGREGATE, "(x <= state.best[i] ||", "(x < state.best[i] ||", "the twin"
    ),
    "pieces of a softmax added without their maxima": Fault(
        ATTENTION, "theirs = relative(later.max, max);", "theirs = A(1);", "the twin"
    ),
    "heads past the end": Fault(
        DEGREES, "if (head + i < heads) static", "if (head + i <= heads) static", "the address sanitizer", "address"
    ),
}


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    calls = calls_for(((1, 1), (4, 3), (1, 264)))
    calls[0][0].h.round_()  # equal maxima
    return outcomes_of_faults(tmp_path_factory.mktemp("faults in messages"), "message", FAULTS, calls, difference)


@pytest.mark.parametrize("name", FAULTS)
def test_a_deliberate_fault_is_caught(outcomes: dict[str, Outcome], name: str) -> None:
    assert outcomes[name].caught_by == FAULTS[name].caught_by, outcomes[name].text


def test_the_cases_cover_every_operator() -> None:
    assert make_case(1, 1).operators == OPERATORS

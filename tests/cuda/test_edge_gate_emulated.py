"""The CUDA kernels of csrc/cuda, executed on the CPU by tests/emulation, against the twin in float64."""

from __future__ import annotations

import platform
import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from emulation.apart import Fault, Outcome, outcomes_of_faults, run_apart
from emulation.build import build
from emulation.edge_gate import SLOPES, Case, Kernels
from emulation.library import DTYPES, Draws, LaunchShape, bits_equal, edge_index
from hypothesis import HealthCheck, given, settings, strategies as st
from torch import Tensor

from dgl_ptdnet import reference

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("g++") is None, reason="the emulator needs x86-64 and g++"
)

SHAPES = {"default": (256, 8, 2048), "narrow": (32, 1, 2048), "few blocks": (64, 2, 3), "wide": (128, 4, 40)}
TOLERANCE = {torch.float32: 5e-6, torch.float64: 1e-13, torch.bfloat16: 2**-8, torch.float16: 2**-10}
ONES = (1, 2, 3, 8, 16, 33, 64, 100, 128, 256, 300)


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return Kernels(build(tmp_path_factory.mktemp("emulated") / "plain"))


def make_case(
    hidden: int,
    edges: int = 300,
    nodes: tuple[int, int] = (40, 30),
    *,
    dtype: torch.dtype = torch.float32,
    seed: int = 0,
    **changes: object,
) -> Case:
    draws = Draws(seed, edges, dtype)
    numbers, ids = draws.numbers, draws.ids
    case = Case(
        ids(nodes[0]),
        ids(nodes[1]),
        numbers(nodes[0], hidden, dtype=dtype),
        numbers(nodes[1], hidden, dtype=dtype),
        numbers(hidden) / hidden**0.5,
        numbers(),
        edge_bias=numbers(edges),
        noise=torch.tensor([-3, 2**40 + 5]),
        tau=0.7,
        penalty=True,
        grad_z=numbers(edges),
        grad_penalty=numbers(),
    )
    return replace(case, **changes)  # type: ignore[arg-type]


def twin(case: Case) -> dict[str, Tensor]:
    bias = torch.zeros(len(case.src)) if case.edge_bias is None else case.edge_bias
    p, q, w, c, b = leaves = [x.double().clone().requires_grad_() for x in (case.p, case.q, case.w, case.c, bias)]
    z, penalty = reference.edge_gate(
        case.src,
        case.dst,
        p,
        q,
        w,
        c,
        edge_bias=b,
        activation=case.activation,
        tau=case.tau,
        gamma=case.gamma,
        zeta=case.zeta,
        noise=case.noise,
        edge_ids=case.edge_ids,
        penalty=True,
    )
    loss = torch.zeros((), dtype=torch.float64) + 0 * sum(x.sum() for x in leaves if not x.isnan().any())
    if case.grad_z is not None:
        loss = loss + (z * case.grad_z.double()).sum()
    if case.grad_penalty is not None:
        loss = loss + penalty * case.grad_penalty.double()
    names = ("grad_p", "grad_q", "grad_w", "grad_c", "grad_bias")
    grads = torch.autograd.grad(loss, leaves, allow_unused=True)
    expected = {name: x.new_zeros(x.shape) if g is None else g for name, x, g in zip(names, leaves, grads)}
    h = p[case.src] + q[case.dst]
    logit = ((h.relu() + SLOPES[case.activation] * (h - h.relu())) * w).sum(1) + b + c
    expected |= {"z": z, "penalty": penalty, "logit": logit}
    return {name: x.detach() for name, x in expected.items()}


def mask_of(case: Case) -> Tensor:
    """[E, mask_bytes], by position."""
    _, src, dst, *_ = edge_index(case.src, case.dst, len(case.p), len(case.q))
    bits = case.p.double()[src.long()] + case.q.double()[dst.long()] > 0
    bits = torch.nn.functional.pad(bits, (0, -bits.shape[1] % 8)).view(len(src), (bits.shape[1] + 7) // 8, 8)
    return (bits.long() << torch.arange(8)).sum(2).to(torch.uint8)


def difference(case: Case, found: dict[str, Tensor]) -> str | None:
    """What is wrong with the kernels' results, if anything."""
    expected = twin(case)
    for name, x in found.items():
        if name == "mask":
            if x.shape[1] and not torch.equal(x, mask_of(case)):
                return "mask differs"
            continue
        scale = max(1.0, float(expected[name].abs().max())) if x.numel() else 1.0
        error = float((x.double() - expected[name]).abs().max()) if x.numel() else 0.0
        if not error <= TOLERANCE[x.dtype] * scale:
            return f"{name} is off by {error:.3g} at a size of {scale:.3g}"
    return None


def check(kernels: Kernels, case: Case, shape: str = "default", seed: int = 0, resident: int = 1) -> None:
    assert difference(case, kernels(case, LaunchShape(*SHAPES[shape]), seed, resident)) is None


@pytest.mark.parametrize("hidden", ONES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_kernels_match_the_twin(kernels: Kernels, dtype: torch.dtype, hidden: int) -> None:
    check(kernels, make_case(hidden, dtype=dtype))


@pytest.mark.parametrize("hidden", [1, 3, 33, 64, 600])
@pytest.mark.parametrize("shape", SHAPES)
def test_any_launch_shape_and_thread_order_match_the_twin(kernels: Kernels, shape: str, hidden: int) -> None:
    case = make_case(hidden, edges=500)
    for seed in range(3):
        check(kernels, case, shape, seed, resident=1 + seed)


@pytest.mark.parametrize("edges", [1, 7, 8, 63, 64, 65, 255, 256, 257, 511, 513])
def test_sizes_around_those_of_tasks_and_blocks(kernels: Kernels, edges: int) -> None:
    for hidden in (1, 8, 64):
        check(kernels, make_case(hidden, edges))


def test_many_blocks_are_added_in_several_levels(kernels: Kernels) -> None:
    check(kernels, make_case(1, edges=40_000), "narrow", seed=1, resident=2)  # 1250 blocks


@pytest.mark.parametrize("hidden", [1, 3, 64])
def test_no_edges_and_no_nodes(kernels: Kernels, hidden: int) -> None:
    for nodes in ((5, 7), (0, 0), (0, 3), (3, 0)):
        check(kernels, make_case(hidden, 0, nodes))


@pytest.mark.parametrize("hidden", [1, 8, 64, 256])
@pytest.mark.parametrize("hub", ["src", "dst", "both"])
def test_a_hub_with_all_edges_is_split(kernels: Kernels, hub: str, hidden: int) -> None:
    case = make_case(hidden, edges=1500, nodes=(9, 9))
    if hub != "dst":
        case.src[:] = 4
    if hub != "src":
        case.dst[:] = 8
    for seed, shape in enumerate(SHAPES):
        check(kernels, case, shape, seed, resident=2)


def test_multi_edges_and_self_loops(kernels: Kernels) -> None:
    case = make_case(16, edges=400, nodes=(4, 4))
    check(kernels, case)
    check(kernels, replace(case, dst=case.src))


@pytest.mark.parametrize("nodes", [(500, 2), (2, 500), (1, 1), (5000, 3000)])
def test_blocks_and_nodes_without_edges(kernels: Kernels, nodes: tuple[int, int]) -> None:
    for hidden in (1, 8, 33):
        check(kernels, make_case(hidden, edges=50, nodes=nodes), "few blocks")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_may_be_halves_of_one_projection_or_start_anywhere(kernels: Kernels, dtype: torch.dtype) -> None:
    for hidden in (1, 8, 33, 64, 100):
        case = make_case(hidden, nodes=(30, 30), dtype=dtype)
        aligned = kernels(case)
        for width, start in ((2 * hidden, 0), (2 * hidden + 1, 0), (2 * hidden + 8, 1)):
            both = torch.full((30, width), float("nan"), dtype=dtype)
            p, q = both[:, start : start + hidden], both[:, start + hidden : start + 2 * hidden]
            p.copy_(case.p), q.copy_(case.q)
            assert bits_equal(kernels(replace(case, p=p, q=q)), aligned)
        assert difference(case, aligned) is None


@pytest.mark.parametrize("activation", SLOPES)
@pytest.mark.parametrize("noise", [True, False])
def test_activations_with_and_without_noise(kernels: Kernels, activation: str, noise: bool) -> None:
    for hidden in (1, 16, 100):
        case = make_case(hidden, activation=activation)
        check(kernels, case if noise else replace(case, noise=None))


def test_what_is_optional_may_be_left_out(kernels: Kernels) -> None:
    for hidden in (1, 64):
        case = make_case(hidden)
        check(kernels, replace(case, edge_bias=None))
        check(kernels, replace(case, grad_z=None))
        check(kernels, replace(case, grad_penalty=None))
        check(kernels, replace(case, penalty=False, grad_penalty=None))
        check(kernels, replace(case, penalty=False, grad_z=None, grad_penalty=None))


@pytest.mark.parametrize("hidden", [1, 8, 33, 64, 256])
def test_an_edge_has_the_same_gate_wherever_it_stands(kernels: Kernels, hidden: int) -> None:
    case = make_case(hidden, edge_ids=torch.randint(-(2**62), 2**62, (300,)))
    z = kernels(case)["z"]
    order = torch.randperm(300)
    for chosen in (order, order[:100], order[:1]):
        parts = {name: getattr(case, name)[chosen] for name in ("src", "dst", "edge_bias", "edge_ids", "grad_z")}
        moved = replace(case, **parts)
        check(kernels, moved)
        for shape in SHAPES.values():
            assert torch.equal(kernels(moved, LaunchShape(*shape))["z"], z[chosen])


@pytest.mark.parametrize("hidden", [1, 3, 64, 300])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_bit_depends_on_the_order_of_threads_and_blocks(kernels: Kernels, shape: str, hidden: int) -> None:
    case = make_case(hidden, edges=900, nodes=(5, 20))
    first = kernels(case, LaunchShape(*SHAPES[shape]))
    for seed in range(1, 6):
        assert bits_equal(first, kernels(case, LaunchShape(*SHAPES[shape]), seed, resident=seed))


@pytest.mark.parametrize("hidden", [1, 8, 64])
def test_nan_comes_out_as_nan_and_stays_with_its_edges(kernels: Kernels, hidden: int) -> None:
    case = make_case(hidden)
    case.p[7, hidden - 1] = float("nan")
    found, clean = kernels(case), kernels(make_case(hidden))
    touched = case.src == 7
    assert found["z"][touched].isnan().all()
    assert torch.equal(found["z"][~touched], clean["z"][~touched])
    assert found["grad_bias"][touched].isnan().all()
    assert torch.equal(found["grad_bias"][~touched], clean["grad_bias"][~touched])
    other = torch.ones(len(case.p), dtype=torch.bool)
    other[7] = False
    assert torch.equal(found["grad_p"][other], clean["grad_p"][other])


@pytest.mark.parametrize("hidden", [1, 8, 64])
@pytest.mark.parametrize("activation", SLOPES)
def test_an_infinite_logit_gives_a_shut_or_open_gate_without_gradient(
    kernels: Kernels, activation: str, hidden: int
) -> None:
    for sign in (1, -1):
        case = make_case(hidden, activation=activation)
        case.p[7, 0] = sign * float("inf")
        case.w.abs_()
        touched, found = case.src == 7, kernels(case)
        if sign > 0 or activation != "relu":
            assert (found["z"][touched] == (sign > 0)).all()
            assert (found["grad_bias"][touched] == 0).all()
            assert (found["grad_p"][7] == 0).all()
        assert all(bool(x.isfinite().all()) for name, x in found.items() if name != "logit")


def test_the_weights_gradient_keeps_its_digits_where_rows_have_an_offset(kernels: Kernels) -> None:
    case = make_case(16, edges=2000, nodes=(200, 200), activation="leaky_relu")
    case = replace(case, p=(case.p + 1000).float(), q=(case.q - 1000).float())
    expected = twin(case)["grad_w"]
    assert (kernels(case)["grad_w"] - expected).abs().max() <= 2e-6 * expected.abs().max()


def philox(counter: tuple[int, ...], key: tuple[int, ...]) -> list[int]:
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [b >> 32 ^ c[1] ^ k[0], b % 2**32, a >> 32 ^ c[3] ^ k[1], a % 2**32]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c


def test_draws_are_those_of_philox(kernels: Kernels) -> None:
    known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]  # Random123's answer to zeros
    assert philox((0,) * 4, (0,) * 2) == known
    assert kernels.draws(torch.arange(4), 0, 0).tolist() == known
    choose = random.Random(0)
    for _ in range(50):
        ids = [choose.randrange(-(2**63), 2**63) for _ in range(20)]
        seed, offset = choose.randrange(2**64), choose.randrange(2**64)
        expected = []
        for x in ids:
            low, high = divmod((x % 2**64) >> 2, 2**32)[::-1]
            words = philox((low, high, offset % 2**32, offset >> 32), (seed % 2**32, seed >> 32))
            expected.append(words[x & 3])
        assert kernels.draws(torch.tensor(ids), seed, offset).tolist() == expected


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_graphs(kernels: Kernels, data: st.DataObject) -> None:
    nodes = data.draw(st.tuples(st.integers(1, 60), st.integers(1, 60)))
    case = make_case(
        data.draw(st.integers(1, 80)),
        data.draw(st.integers(0, 400)),
        nodes,
        dtype=data.draw(st.sampled_from(list(DTYPES))),
        seed=data.draw(st.integers(0, 2**31)),
        activation=data.draw(st.sampled_from(list(SLOPES))),
    )
    check(kernels, case, data.draw(st.sampled_from(list(SHAPES))), data.draw(st.integers(0, 9)), resident=2)


# ---- sanitizers and deliberate faults ----------------------------------------------------------------------------


Call = tuple[Case, LaunchShape, int, int]


def test_uniform_numbers_are_those_of_the_specification(kernels: Kernels) -> None:
    ids, noise = (
        torch.randint(-(2**62), 2**62, (1000,), generator=torch.Generator().manual_seed(2)),
        torch.tensor([-3, 9]),
    )
    want = ((reference.philox_bits(ids, noise) >> 9).float() + 0.5) * 2.0**-23
    for shape in SHAPES.values():
        assert torch.equal(kernels.uniform(noise, ids, LaunchShape(*shape)), want)


def calls_for(widths: tuple[int, ...], shapes: tuple[LaunchShape, ...]) -> list[Call]:
    """Few and small, but with every way through the kernels: whole and ragged rows, hubs, gaps, levels of blocks."""
    calls: list[Call] = [(make_case(1, edges=1100, nodes=(3, 900)), LaunchShape(32, 1), 3, 2)]
    for i, hidden in enumerate(widths):
        case = make_case(hidden, edges=150 + i, nodes=(12, 40))
        case.dst[40:90] = 3
        case.src[20:120] = 5
        calls.append((case, shapes[i % len(shapes)], 1 + i, 2))
    return calls


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_sanitizers_find_nothing(tmp_path: Path, sanitizer: str) -> None:
    calls = calls_for(
        (1, 3, 8, 16, 33, 64, 128, 256, 264), (LaunchShape(64, 1), LaunchShape(32, 2), LaunchShape(64, 2, 3))
    )
    if sanitizer == "address":
        calls += [(make_case(h, 70, dtype=t), LaunchShape(), 1, 1) for t in DTYPES for h in (1, 5, 24, 96, 256)]
    (outcome,) = run_apart([build(tmp_path / "build", sanitizer)], sanitizer, calls, difference)
    assert outcome.caught_by is None, outcome.text


COMMON, PIECES, FORWARD, BACKWARD = "common.cuh", "pieces.cuh", "edge_gate_forward.cu", "edge_gate_backward.cu"
FAULTS = {
    "none": Fault(COMMON, "int kFan", "int kFan", None),
    "dropped barrier between warps' sums": Fault(
        COMMON, "    }\n    __syncthreads();\n  }\n", "    }\n  }\n", "the thread sanitizer", "thread"
    ),
    "dropped barrier before a block arrives": Fault(
        COMMON,
        "      __syncthreads();\n      const int parent",
        "      const int parent",
        "the thread sanitizer",
        "thread",
    ),
    "dropped barrier before a block learns that it is last": Fault(
        COMMON, "      __syncthreads();\n      if (!last)", "      if (!last)", "the emulator"
    ),
    "dropped barrier before weights are read": Fault(
        BACKWARD, "  double grad_c[1] = {0};\n  __syncthreads();\n", "  double grad_c[1] = {0};\n", "the twin"
    ),
    "dropped warp barrier before pieces meet": Fault(
        PIECES, "      __syncwarp(group);\n      int arrived", "      int arrived", "the thread sanitizer", "thread"
    ),
    "dropped fence before pieces meet": Fault(
        PIECES,
        "        __threadfence();  // after the barrier, so that it covers the writes of all lanes\n",
        "",
        "the thread sanitizer",
        "thread",
    ),
    "dropped fence before a block arrives": Fault(
        COMMON,
        "      __threadfence();\n      __syncthreads();\n",
        "      __syncthreads();\n",
        "the thread sanitizer",
        "thread",
    ),
    "wrong lane in the sum over a row": Fault(
        FORWARD, "__shfl_xor_sync(group, total, step)", "__shfl_xor_sync(group, total, step / 2)", "the twin"
    ),
    "wrong lane's source node": Fault(
        FORWARD, "__shfl_sync(group, src, round + b, L)", "__shfl_sync(group, src, b, L)", "the twin"
    ),
    "wrong lane's gradient": Fault(
        BACKWARD, "__shfl_sync(group, grad, ahead + j, lanes)", "__shfl_sync(group, grad, ahead, lanes)", "the twin"
    ),
    "lane outside its own mask": Fault(COMMON, "/ lanes * lanes);", "/ lanes * lanes / 2);", "the emulator"),
    "thread that returns before its warp": Fault(
        FORWARD, "  if (!args.penalty) return;", "  if (!args.penalty || threadIdx.x == 0) return;", "the emulator"
    ),
    "edge past the end": Fault(
        FORWARD,
        "const bool valid = position < index.edges;",
        "const bool valid = position <= index.edges;",
        "the address sanitizer",
        "address",
    ),
    "mask past the end": Fault(
        FORWARD,
        "first + round + b < args.index.edges)",
        "first + round + b <= args.index.edges)",
        "the address sanitizer",
        "address",
    ),
    "columns past the end": Fault(
        COMMON, "x[i] = k + i < hidden ?", "x[i] = k + i <= hidden ?", "the address sanitizer", "address"
    ),
    "last edge of a task left out": Fault(
        BACKWARD, "min(begin + tile, edges);", "min(begin + tile, edges - 1);", "the twin"
    ),
    "row that ends with a task counted into the next": Fault(
        BACKWARD, "count = (row_end - 1) / tile", "count = row_end / tile", "the twin"
    ),
    "rows without edges left unwritten": Fault(
        BACKWARD, "== __ldg(ptr + row + 1));", "> __ldg(ptr + row + 1));", "the twin"
    ),
    "both pieces of a task in one place": Fault(PIECES, "* 2 + (place == 0)", "* 2 + 0", "the twin"),
    "meeting that is not reset": Fault(PIECES, "        if (arrived == 1) atomicExch(meeting, 0);\n", "", "the twin"),
    "+= for an atomic, among blocks": Fault(
        COMMON, "atomicAdd(counter + parent, 1)", "counter[parent]++", "the thread sanitizer", "thread"
    ),
    "+= for an atomic, among tasks": Fault(
        PIECES, "atomicAdd(meeting, 1)", "(*meeting)++", "the thread sanitizer", "thread"
    ),
}


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    calls = calls_for((1, 33, 64, 264), (LaunchShape(64, 1), LaunchShape(32, 2)))
    return outcomes_of_faults(tmp_path_factory.mktemp("faults"), "edge_gate", FAULTS, calls, difference)


@pytest.mark.parametrize("name", FAULTS)
def test_a_deliberate_fault_is_caught(outcomes: dict[str, Outcome], name: str) -> None:
    assert outcomes[name].caught_by == FAULTS[name].caught_by, outcomes[name].text

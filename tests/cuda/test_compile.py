"""nvcc compiles the CUDA kernels for every architecture; registers and shared memory stay within a budget."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

KERNELS = Path(__file__).parents[2] / "csrc" / "cuda"
ARCHITECTURES = (75, 80, 86, 90, 100, 120)
INSTANCES = {
    "edge_gate_forward": 4 * 13,  # dtypes; lanes and rows
    "edge_gate_backward": 4 * 4,  # dtypes; columns and sides
    "aggregate": 4 * 3,  # dtypes; sums, with dot products, with those of maxima
    "maximum": 4,
    "uniform": 1,
    "sum_slabs": 2 * 2,  # float and double; two files
    "segment_sum": 2 * 2,  # float and double; one head or many
    "segment_spread": 2,
    "normalize": 2 * 2,  # float and double; forward and backward
    "attention": 4,
    "attention_weights": 2,
    "attention_records": 4,
    "attention_edges": 2,
    "edge_scores": 4,
    "edge_scores_backward": 4 * 2,  # dtypes; with and without the weight's gradient
}
FLAT = (
    "uniform",
    "sum_slabs",
    "segment_spread",
    "normalize",
    "attention_weights",
    "attention_edges",
)  # no rows in registers

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")


@dataclass(frozen=True)
class Usage:
    """What ptxas says of a kernel on an architecture."""

    kernel: str
    arguments: tuple[str, ...]  # of the template
    architecture: int
    registers: int
    shared: int
    spilled: int
    stack: int

    def blocks(self) -> int:
        """Blocks of 256 threads that a multiprocessor is to hold at the same time."""
        double = self.arguments[0] == "double"
        if self.kernel.startswith("edge_gate"):
            return 2 if double or (self.kernel == "edge_gate_forward" and self.arguments[3] == "false") else 3
        if self.kernel in FLAT:
            return 3
        return 1 if double and self.kernel in ("attention", "edge_scores_backward") else 2


ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for 'sm_(?P<architecture>\d+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.S,
)


def read_usage(log: str) -> list[Usage]:
    found = list(ENTRY.finditer(log))
    names = "\n".join(entry["name"] for entry in found)
    plain = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, check=True).stdout.splitlines()
    usages = []
    for entry, name in zip(found, plain):
        kernel = re.search(r"(\w+)_kernel(?:<(.*?)>)?\(", name)
        assert kernel, name
        shared = re.search(r"(\d+) bytes smem", entry["rest"])
        arguments = tuple(x.split(")")[-1].strip() for x in (kernel[2] or "").split(","))
        spilled = int(entry["stores"]) + int(entry["loads"])
        numbers = int(entry["architecture"]), int(entry["registers"]), int(shared[1]) if shared else 0
        usages.append(Usage(kernel[1], arguments, *numbers, spilled, int(entry["stack"])))
    return usages


@pytest.fixture(scope="module")
def usages(tmp_path_factory: pytest.TempPathFactory) -> list[Usage]:
    folder = tmp_path_factory.mktemp("nvcc")
    found: list[Usage] = []
    for source in sorted(KERNELS.glob("*.cu")):
        command = ["nvcc", "-std=c++17", "-O3", "-Xptxas", "-v", "--threads", "2", "-c", str(source)]
        command += [f"-gencode=arch=compute_{x},code=sm_{x}" for x in ARCHITECTURES]
        done = subprocess.run([*command, "-o", str(folder / f"{source.stem}.o")], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr, done.stderr
        found += read_usage(done.stdout + done.stderr)
    return found


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_kernel_is_there(usages: list[Usage], architecture: int) -> None:
    found = [usage.kernel for usage in usages if usage.architecture == architecture]
    assert {name: found.count(name) for name in set(found)} == INSTANCES


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_kernel_spills_or_has_a_stack(usages: list[Usage], architecture: int) -> None:
    assert not [x for x in usages if x.architecture == architecture and (x.spilled or x.stack)]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_registers_and_shared_memory_leave_room_for_the_blocks_that_hide_latency(
    usages: list[Usage], architecture: int
) -> None:
    """Of 64 Ki registers, given out by eights a thread, and of sm_75's 64 KiB of shared memory."""
    budget = {1: (255, 64 << 10), 2: (128, 32 << 10), 3: (80, 65536 // 3)}
    for usage in usages:
        if usage.architecture == architecture:
            registers, shared = budget[usage.blocks()]
            assert usage.registers <= registers, usage
            assert usage.shared <= shared, usage

"""The C++ tests, built by CMake with sanitizers: the CPU kernels touch no memory but theirs, and do not race."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = [  # one for each file of kernels in csrc/cpu, and the memory kept for results
    "aggregate_test",
    "attention_test",
    "common_neighbours_test",
    "degrees_test",
    "edge_gate_test",
    "edge_index_test",
    "pool_test",
    "uniform_test",
]


def test_every_kernel_has_a_program():
    kernels = {path.name.removesuffix("_impl.h") for path in (ROOT / "csrc" / "cpu").glob("*_impl.h")}
    assert {name.removesuffix("_test") for name in PROGRAMS} == kernels | {"pool"}


@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
def test_kernels_under_sanitizers(sanitize, tmp_path):
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if cmake is None:
        pytest.skip("cmake is not installed")
    configure = [cmake, "-S", str(ROOT), "-B", str(tmp_path), f"-DSANITIZE={sanitize}"]
    configure += [f"-DPython3_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=None"]
    for command in (configure, [cmake, "--build", str(tmp_path), "--parallel", "2"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in tmp_path.glob("*_test")) == PROGRAMS
    for program in sorted(tmp_path.glob("*_test")):
        done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "passed" in done.stdout

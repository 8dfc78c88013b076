"""The C++ tests, built by CMake with sanitizers: the CPU kernels touch no memory but theirs, and do not race."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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
    for program in sorted(tmp_path.glob("*_test")):
        done = subprocess.run([str(program)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "passed" in done.stdout

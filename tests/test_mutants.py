"""A sample of the mutants is still killed by the tests that killed them."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_sample_of_mutants_is_killed():
    command = [sys.executable, str(ROOT / "tests" / "mutants.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

"""The package without DGL."""

import subprocess
import sys

import pytest
import torch


@pytest.fixture(autouse=True)
def seed():
    """A test's draws do not depend on the tests before it."""
    torch.manual_seed(0)


WITHOUT_DGL = """
import sys
sys.modules["dgl"] = None
import torch
import dgl_ptdnet as ptd
index = ptd.EdgeIndex(torch.tensor([0]), torch.tensor([0]), 1, 1)
print(ptd.aggregate(index, torch.ones(1, 2)).tolist())
try:
    ptd.Denoised
except ImportError as error:
    print(error)
"""


def test_operators_work_without_dgl_and_the_error_says_which_one_fits():
    done = subprocess.run([sys.executable, "-c", WITHOUT_DGL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "[[1.0, 1.0]]" in done.stdout
    assert f"fits torch {torch.__version__}: dgl 1.1.3" in done.stdout

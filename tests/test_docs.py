"""What the documents say runs: the docstrings' examples, the README's code, the demo."""

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dgl_ptdnet as ptd

ROOT = Path(__file__).parents[1]


def modules():
    names = [name for _, name, _ in pkgutil.walk_packages(ptd.__path__, "dgl_ptdnet.")]
    return [name for name in names if not name.endswith(("._C", "._cuda", ".__main__"))]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings(name):
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_every_public_name_has_a_docstring_with_an_example():
    for name in ptd.__all__:
        thing = getattr(ptd, name)
        assert thing.__doc__, name
        assert isinstance(thing, ModuleType) or ">>>" in thing.__doc__, f"{name} has no example"


def test_code_in_the_readme():
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})


@pytest.mark.parametrize("name", ["node_classification", "mini_batches", "existing_model"])
def test_examples(name, tmp_path):
    source = ROOT / "examples" / f"{name}.py"
    assert len(source.read_text().splitlines()) < 60
    environment = {**os.environ, "DGLBACKEND": "pytorch", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(source)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(re.findall(r"test accuracy (\d\.\d+)", done.stdout)[0]) > 0.7


def test_a_script_becomes_ptdnet_plus_by_four_lines():
    lines = (ROOT / "examples" / "denoise_a_script.py").read_text().splitlines()
    plain = [line for line in lines if not line.endswith("# +")]
    assert len(lines) - len(plain) == 4
    found = []
    for script in (plain, lines):
        command = [sys.executable, "-c", "\n".join(script)]
        environment = {**os.environ, "DGLBACKEND": "pytorch", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found.append(float(re.findall(r"test accuracy (\d\.\d+)", done.stdout)[0]))
    assert found[1] > found[0] + 0.05


def test_demo(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "demo.py"), "--seeds", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    plain, _, plus = (re.findall(r"\d\.\d+", line) for line in done.stdout.splitlines() if line.startswith("GCN"))
    assert float(plus[0]) > float(plain[0]) - 0.01
    for good, bad in (plus[2:4], plus[4:6]):  # at training nodes, at test nodes
        assert float(good) > float(bad) + 0.2
    assert (tmp_path / "out" / "demo" / "gates.png").exists()

"""The page for a user's own graph and the README's training section: every block runs and gives its figures."""

import json
import re
import shlex
from pathlib import Path

import pytest

from dgl_ptdnet.cli import main

ROOT = Path(__file__).parents[1]


def run_blocks(text, names):
    """Python blocks share their names; a line of a sh block is a command."""
    blocks = re.findall(r"```(python|sh)\n(.*?)```", text, flags=re.S)
    for kind, block in blocks:
        if kind == "python":
            exec(compile(block, "page", "exec"), names)
            continue
        for line in block.splitlines():
            program, *arguments = shlex.split(line)
            assert program == "dgl-ptdnet"
            assert main(arguments) == 0, line
    return len(blocks)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_page_for_an_own_graph():
    page = (ROOT / "docs" / "own_graph.md").read_text()
    names: dict = {}
    assert run_blocks(page, names) > 8
    found = {name: json.loads(Path("runs", name, "metrics.json").read_text())["mean"] for name in ("basic", "plus")}
    denoised = json.loads(Path("runs/denoised/metrics.json").read_text())["mean"]
    stated = {name: float(re.search(rf"\| {row} \| (0\.\d+)", page)[1]) for name, row in
              (("basic", "basic"), ("plus", "ptdnet-plus"))}  # fmt: skip
    for name, accuracy in found.items():
        assert accuracy == pytest.approx(stated[name], abs=0.03)
    assert denoised == pytest.approx(float(re.search(r"reaches (0\.\d+)", page)[1]), abs=0.03)
    assert min(found["plus"], denoised) > found["basic"] + 0.1
    assert names["logits"].shape == (1000, 5)


def test_training_in_the_readme():
    section = (ROOT / "README.md").read_text().split("\n## Train\n")[1].split("\n## ")[0]
    assert run_blocks(section, {}) >= 2

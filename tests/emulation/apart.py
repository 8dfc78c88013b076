"""Runs emulated kernels in processes of their own, under sanitizers, and tells what that led to."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .build import build, build_support, runtime_library

Difference = Callable[[Any, dict[str, Tensor]], "str | None"]


@dataclass
class Outcome:
    text: str
    caught_by: str | None


def run_apart(libraries: list[Path], sanitizer: str, calls: list, difference: Difference) -> list[Outcome]:
    """Each library's calls, (case, shape, seed, resident), compared with what they should give."""
    torch.save(calls, libraries[0].parent / "calls.pt")
    command = [sys.executable, "-m", "emulation.run", str(libraries[0].parent / "calls.pt"), *map(str, libraries)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    if sanitizer:
        environment["LD_PRELOAD"] = runtime_library(sanitizer)
        environment["ASAN_OPTIONS"] = "detect_leaks=0"
        environment["TSAN_OPTIONS"] = "halt_on_error=1"
        if shutil.which("setarch"):  # the thread sanitizer does not bear every layout of addresses
            command = ["setarch", platform.machine(), "-R", *command]
    subprocess.run(command, env=environment, check=True)
    return [_outcome(library.parent, calls, difference) for library in libraries]


def _outcome(folder: Path, calls: list, difference: Difference) -> Outcome:
    text, results = (folder / "stderr.txt").read_text(), folder / "results.pt"
    for sign, who in {
        "ThreadSanitizer: data race": "the thread sanitizer",
        "ERROR: AddressSanitizer": "the address sanitizer",
        "runtime error:": "the undefined-behaviour sanitizer",
        "RuntimeError: block": "the emulator",
    }.items():
        if sign in text:
            return Outcome(text, who)
    if not results.exists():
        return Outcome(text, "a crash")
    wrong = [difference(call[0], found) for call, found in zip(calls, torch.load(results))]
    return Outcome(str(wrong), "the twin" if any(wrong) else None)


@dataclass(frozen=True)
class Fault:
    """A deliberate one: some text of a kernel's file replaced, and who has to notice."""

    file: str
    old: str
    new: str
    caught_by: str | None
    sanitizer: str = ""


ONLY_F32 = [(f"return f({name}{{}});", "return;") for name in ("double", "__nv_bfloat16", "__half")]


def outcomes_of_faults(
    folder: Path, part: str, faults: dict[str, Fault], calls: list, difference: Difference
) -> dict[str, Outcome]:
    """What the calls lead to with each of the faults in the part's kernels."""
    support = {name: build_support(folder / f"support {name}", name, part) for name in ("", "address", "thread")}

    def build_fault(number: int, fault: Fault) -> Path:
        changes: dict[str, list[tuple[str, str]]] = {"common.cuh": list(ONLY_F32)}
        changes.setdefault(fault.file, []).append((fault.old, fault.new))
        return build(folder / str(number), fault.sanitizer, changes, support[fault.sanitizer], part)

    libraries = {name: build_fault(number, fault) for number, (name, fault) in enumerate(faults.items())}
    found: dict[str, Outcome] = {}
    for sanitizer in support:
        names = [name for name, fault in faults.items() if fault.sanitizer == sanitizer]
        found |= zip(names, run_apart([libraries[name] for name in names], sanitizer, calls, difference))
    return found

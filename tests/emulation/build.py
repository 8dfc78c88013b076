"""Builds the shipped kernels for the emulator."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .translate import translate

HERE = Path(__file__).parent
KERNELS = HERE.parents[1] / "csrc" / "cuda"
JOBS = 2
PARTS = {"edge_gate": ("edge_gate*.cu", "uniform.cu"), "message": ("aggregate.cu", "degrees.cu", "attention.cu")}

FLAGS = "-std=c++17 -fPIC -g1 -fno-strict-aliasing -ffp-contract=off -Wall -Wno-unknown-pragmas -Wno-sign-compare"
SANITIZERS = {
    "": [],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
    "thread": ["-fsanitize=thread"],
    "thread, but not of the emulator itself": ["-DEMULATION_TSAN"],
}

Faults = Mapping[str, list[tuple[str, str]]]  # file name: replacements


def build(
    folder: Path,
    sanitizer: str = "",
    faults: Faults | None = None,
    support: list[Path] | None = None,
    part: str = "edge_gate",
) -> Path:
    """A library of a part of the kernels in csrc/cuda, with faults put in where they are asked for.

    Only what runs often is worth optimising: compilation takes longer than a short run.
    """
    folder.mkdir(parents=True)
    chosen = [path for pattern in (*PARTS[part], "*.cuh") for path in sorted(KERNELS.glob(pattern))]
    names = {path.name: path.read_text() for path in chosen}
    for name, replacements in (faults or {}).items():
        for old, new in replacements:
            if names[name].count(old) != 1:
                raise ValueError(f"{name} has {names[name].count(old)} places that read {old!r}")
            names[name] = names[name].replace(old, new)
    for name, text in names.items():
        (folder / name).write_text(translate(text))
    level = "-O0" if sanitizer or faults else "-O1"
    objects = compile_all(sorted(folder.glob("*.cu")), folder, sanitizer, level)
    objects += support or build_support(folder, sanitizer, part)
    library = folder / "libkernels.so"
    run(["g++", "-shared", *SANITIZERS[sanitizer], *map(str, objects), "-o", str(library)])
    return library


def build_support(folder: Path, sanitizer: str = "", part: str = "edge_gate") -> list[Path]:
    """What does not depend on the kernels: the emulator, and the calls for ctypes."""
    folder.mkdir(parents=True, exist_ok=True)
    emulator = sanitizer if sanitizer != "thread" else "thread, but not of the emulator itself"
    return [
        *compile_all([HERE / f"{part}_entry.cpp"], folder, sanitizer),
        *compile_all([HERE / "emulator.cpp"], folder, emulator),
    ]


def compile_all(sources: list[Path], folder: Path, sanitizer: str, level: str = "-O1") -> list[Path]:
    flags = [*FLAGS.split(), level, *SANITIZERS[sanitizer]]
    flags += [f"-I{x}" for x in (folder, HERE / "include", HERE, KERNELS)]
    objects = [folder / f"{source.stem}.o" for source in sources]
    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(lambda i, o: run(["g++", *flags, "-x", "c++", "-c", str(i), "-o", str(o)]), sources, objects))
    return objects


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")


def runtime_library(sanitizer: str) -> str:
    """What a process that is not itself built with the sanitizer has to preload."""
    name = {"address": "libasan.so", "thread": "libtsan.so"}[sanitizer]
    return subprocess.run(["g++", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()

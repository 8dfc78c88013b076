"""Shared by the benchmarks: alternating timing in one process, peak memory, results as JSON, comparison, tables."""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

import dgl_ptdnet as ptd

HERE = Path(__file__).parent


def medians(contenders: dict[str, Callable[[], Any]], repeats: int, rare: Iterable[str] = ()) -> dict[str, float]:
    """Milliseconds of each contender: the median over ``repeats`` rounds in which each runs once, in turn.

    The machine may be noisy; the contenders of one round meet the same noise. Contenders in ``rare`` are so slow that
    one timed round is enough.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    rare = set(rare)
    for turn in range(repeats + 1):  # the first round warms up
        for name, run in contenders.items():
            if name in rare and turn != 1:
                continue
            begin = time.perf_counter()
            result = run()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn:
                times[name].append(1e3 * (time.perf_counter() - begin))
            del result
    return {name: statistics.median(values) for name, values in times.items() if values}


def peak_bytes(run: Callable[[], Any]) -> int:
    """How far ``run`` raises the resident memory of the process at its peak, in bytes; a thread samples it."""
    page = os.sysconf("SC_PAGE_SIZE")

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * page

    gc.collect()
    ptd.release_memory()
    ctypes.CDLL(None).malloc_trim(0)
    before = highest = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal highest
        while not done.is_set():
            highest = max(highest, resident())
            time.sleep(0.0005)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        result = run()
        highest = max(highest, resident())
        del result
    finally:
        done.set()
        thread.join()
    return highest - before


def compile_native(source: str) -> ctypes.CDLL:
    """Compiles a C++ file of this folder for this machine and loads it: a yardstick, not part of the package."""
    target = Path(tempfile.gettempdir()) / f"dgl_ptdnet_{os.getuid()}_{Path(source).stem}.so"
    flags = ["-O3", "-march=native", "-mprefer-vector-width=512", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
    subprocess.run([os.environ.get("CXX", "g++"), *flags, str(HERE / source), "-o", str(target)], check=True)
    return ctypes.CDLL(str(target))


def random_edges(
    edges: int, nodes: int, *, power_law: bool = False, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """src, dst int64 [E]. With ``power_law``, destinations have degrees like 1 / rank^0.8, so there are hubs."""
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(0, nodes, (edges,), generator=generator)
    if not power_law:
        return src, torch.randint(0, nodes, (edges,), generator=generator)
    uniform = torch.rand(edges, generator=generator, dtype=torch.float64)
    rank = (uniform ** (1 / (1 - 0.8)) * nodes).long().clamp_(max=nodes - 1)
    return src, torch.randperm(nodes, generator=generator)[rank]


def machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **ptd.build_info(),
    }


def save(path: Path, results: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"wrote {path}")


def add_comparison(parser: argparse.ArgumentParser) -> None:
    """Adds the options of :func:`compare`."""
    parser.add_argument("--compare", type=Path, help="an earlier result; exit code 1 if a ratio grew too much")
    parser.add_argument("--slack", type=float, default=1.25, help="the factor that a ratio may grow by (default 1.25)")


def compare(old_path: Path, new: dict[str, float], slack: float) -> None:
    """Ends with exit code 1 if a ratio (smaller is better) grew by more than the factor ``slack`` since ``old_path``.

    ``new`` maps names to ratios of two times of one process. Such a ratio is about the same whether the machine is busy
    or idle.
    """
    try:
        old = json.loads(old_path.read_text())["ratios"]
    except (OSError, ValueError, KeyError) as error:
        sys.exit(f"--compare {old_path}: not a result of this benchmark ({error})")
    shared = sorted(set(old) & set(new))
    if not shared:
        sys.exit(f"--compare {old_path}: no case in common; run with the same options")
    worse = [name for name in shared if new[name] > slack * old[name]]
    for name in worse:
        print(f"slower: {name}: {old[name]:.3f} -> {new[name]:.3f}")
    print(f"{len(shared)} ratios compared with {old_path}, {len(worse)} grew by more than {slack}x")
    if worse:
        sys.exit(1)


def progress(items: list[Any]) -> Iterable[Any]:
    return tqdm(items, disable=not sys.stderr.isatty())


def table(rows: list[list[str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]

    def line(row: list[str]) -> str:
        cells = [cell.rjust(w) if k else cell.ljust(w) for k, (cell, w) in enumerate(zip(row, widths))]
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, rows))

"""Runs emulated kernels away from the tests: python -m emulation.run CALLS LIBRARY...

Every library has a process of its own, a fork of this one, which has a sanitizer's run-time library and torch loaded
already. Beside the library it leaves results.pt, where it comes to an end, and stderr.txt.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path

import torch

from emulation.build import JOBS
from emulation.edge_gate import Case, Kernels
from emulation.message import MessageKernels

SECONDS = 120


def run(library: Path, calls: list) -> None:
    os.dup2(os.open(library.parent / "stderr.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC), 2)
    signal.alarm(SECONDS)
    status = 1
    try:
        kernels = Kernels(library) if isinstance(calls[0][0], Case) else MessageKernels(library)
        torch.save([kernels(*call) for call in calls], library.parent / "results.pt")
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def main(calls: str, *libraries: str) -> None:
    loaded = torch.load(calls, weights_only=False)
    running = 0
    for library in libraries:
        if running == JOBS:
            os.wait()
            running -= 1
        if os.fork() == 0:
            run(Path(library), loaded)
        running += 1
    for _ in range(running):
        os.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs jobs in several processes, and records each one when it has finished."""

from __future__ import annotations

import json
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, as_completed
from typing import Any

from tqdm import tqdm

from ..train.memory import keep_freed_memory
from ..train.results import JsonRecord
from .jobs import Job, default_values, execute
from .records import Records


def run(jobs: Iterable[Job], records: Records, *, data_dir: Any = None, workers: int = 0, name: str = "runs") -> None:
    """Runs the jobs that have no record yet, in several processes with one thread each, and records their figures.

    Jobs that measure time come last, one after the other.

    Parameters
    ----------
    jobs : iterable of Job
        The jobs.
    records : Records
        What has finished; it gets the new figures.
    data_dir : str, optional
        Folder of the published data sets.
    workers : int
        Number of processes. Default: 0, one for each core.
    name : str
        Label of the progress bar. Default: ``"runs"``.
    """
    if workers < 0:
        raise ValueError(f"workers must not be negative; got {workers}")
    missing = [job for job in dict.fromkeys(jobs) if records.get(job) is None]
    together = [job for job in missing if not job.alone]
    alone = [job for job in missing if job.alone]
    if not missing:
        return
    pause = 0.1 if sys.stderr.isatty() else 30  # seconds between updates of the bar: rarely, in a log file
    with tqdm(total=len(missing), desc=name, unit="run", smoothing=0.05, mininterval=pause) as bar:
        for batch, size in ((together, workers or os.cpu_count() or 1), (alone, 1)):
            if batch:
                _run(batch, records, data_dir, min(size, len(batch)), bar)


def _run(jobs: list[Job], records: Records, data_dir: Any, workers: int, bar: Any) -> None:
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes inherit it, and read it before our code runs
    try:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start)
        try:
            waiting = {pool.submit(execute, job, data_dir): job for job in jobs}
            failure: ValueError | None = None
            for done in as_completed(waiting):
                if done.cancelled():
                    continue
                try:
                    records.add(waiting[done], _result(done, waiting[done]))
                    bar.update()
                except ValueError as error:  # other jobs that are running finish first
                    failure = failure or error
                    for other in waiting:
                        other.cancel()
            if failure:
                raise failure
        finally:
            pool.shutdown(cancel_futures=True)
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _result(done: Future[JsonRecord], job: Job) -> JsonRecord:
    try:
        return done.result()
    except Exception as error:
        hint = ". Is there enough memory? Fewer --workers need less" if isinstance(error, BrokenExecutor) else ""
        raise ValueError(f"a run failed: {error}{hint}. It was {json.dumps(job.to_json(default_values()))}") from error


def _start() -> None:
    """Prepares a worker. It ends when its parent is killed, and ends silently when it is interrupted."""
    keep_freed_memory()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

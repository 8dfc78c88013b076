"""A queue on disk: what is to be run, and a line in a file for each run that has ended."""

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
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ..train.write import write_whole
from .jobs import execute, group_of, own_values

Job = dict[str, Any]
Record = dict[str, Any]


def key_of(job: Job, values: dict[str, Any] | None = None) -> str:
    """Equal for equal jobs. ``values`` are those of the settings that the job does not name; default: today's."""
    if "settings" in job:
        job = {**job, "settings": {**own_values(), **(values or {}), **job["settings"]}}
    return json.dumps(job, sort_keys=True)


class Records:
    """What is known of the jobs that have ended: ``GROUP.jsonl`` files of a folder, a line a job.

    A line that was cut off when the machine or the process died has no end; it counts as not written. A line names the
    settings that differ from those in ``settings.json``, which are the program's own when the folder was made: should
    these change one day, old records remain what they were.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dgl_ptdnet.studies.queue import Records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Records(Path(folder)).add({"measure": "statistics", "dataset": "cora"}, {"nodes": 2708})
    ...     Records(Path(folder)).get({"dataset": "cora", "measure": "statistics"})["nodes"]
    2708
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[str, Record] = {}
        known = folder / "settings.json"
        told = json.loads(known.read_text()) if known.exists() else {}
        self._values, self._told = {**own_values(), **told}, bool(told) and own_values().keys() <= told.keys()
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_bytes().split(b"\n")[:-1]:
                record = json.loads(line)
                if "job" in record:
                    self._known[key_of(record["job"], self._values)] = record

    def get(self, job: Job) -> Record | None:
        """The record of a job, if there is one."""
        return self._known.get(key_of(job))

    def of(self, jobs: Iterable[Job]) -> list[Record]:
        """The records that there are of some jobs, in their order."""
        return [record for job in jobs if (record := self.get(job)) is not None]

    def add(self, job: Job, results: Record) -> None:
        """Appends a line, which is on the disk when this returns."""
        written = job
        if "settings" in job:
            settings = {**own_values(), **job["settings"]}
            written = {
                **job,
                "settings": {k: v for k, v in settings.items() if k in job["settings"] or self._own(k, v)},
            }
        record = {"job": written, **results}
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._told:  # there is no such file, or it is from before there were some of the settings
            write_whole(self.folder / "settings.json", json.dumps(self._values, indent=1) + "\n")
            self._told = True
        with open(self.folder / f"{group_of(job)}.jsonl", "ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(0)
            if end and not (content := file.read()).endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
            file.write(json.dumps(record).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._known[key_of(job)] = record

    def _own(self, name: str, value: Any) -> bool:
        """Whether a line must name a setting: its value is not the one that the folder takes for granted."""
        return name in self._values and self._values[name] != value


def run(jobs: Iterable[Job], records: Records, *, data_dir: Any = None, workers: int = 0, name: str = "runs") -> None:
    """Runs the jobs that have no record, each in one thread of one of several processes, and writes their records.

    Jobs that measure time (``"alone"``) come last, in a process of their own each, with nothing beside them.

    Parameters
    ----------
    jobs : list[dict]
        See :mod:`dgl_ptdnet.studies.jobs`.
    records : Records
        Where the results go.
    data_dir : str, optional
        Where the published data sets are.
    workers : int
        Number of processes. 0: one for each core.
    name : str
        What the bar shows.
    """
    if workers < 0:
        raise ValueError(f"workers must not be negative; got {workers}")
    missing = {key_of(job): job for job in jobs if records.get(job) is None}
    together = [job for job in missing.values() if not job.get("alone")]
    alone = [job for job in missing.values() if job.get("alone")]
    if not missing:
        return
    pause = 0.1 if sys.stderr.isatty() else 30  # seconds between two states of the bar: a log file needs few
    with tqdm(total=len(missing), desc=name, unit="run", smoothing=0.05, mininterval=pause) as bar:
        for batch, size in ((together, workers or os.cpu_count() or 1), (alone, 1)):
            if batch:
                _run(batch, records, data_dir, min(size, len(batch)), bar)


def _run(jobs: list[Job], records: Records, data_dir: Any, workers: int, bar: Any) -> None:
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # the processes inherit it; they read it before any code of ours runs
    try:
        pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _end_with_parent)
        try:
            waiting = {pool.submit(execute, job, data_dir): job for job in jobs}
            failure: ValueError | None = None
            for done in as_completed(waiting):
                if done.cancelled():
                    continue
                try:
                    records.add(waiting[done], _result(done, waiting[done]))
                    bar.update()
                except ValueError as error:  # what runs beside it is not lost
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


def _result(done: Future[Record], job: Job) -> Record:
    try:
        return done.result()
    except Exception as error:
        hint = ". Is there enough memory? Fewer --workers need less" if isinstance(error, BrokenExecutor) else ""
        raise ValueError(f"a run failed: {error}{hint}. It was {json.dumps(job)}") from error


def _end_with_parent() -> None:
    """A worker whose parent is killed would wait for ever; one that is interrupted has nothing to say."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""Records of the jobs that have finished: files with a line for each job."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..train.atomic import write_atomic
from ..train.results import JsonRecord
from .jobs import Job, default_values, figures_of


class Records:
    """The figures of the jobs that have finished, in the ``GROUP.jsonl`` files of a folder.

    An incomplete last line, from a crash, is ignored. A line names only the settings that differ from those in the
    folder's ``settings.json``. This file has the defaults of the program from the time when the folder was made, so
    records stay valid if a default changes later.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dgl_ptdnet.studies.jobs import Job
    >>> from dgl_ptdnet.studies.records import Records
    >>> from dgl_ptdnet.studies.rank_k import Times
    >>> from dgl_ptdnet.train import Settings
    >>> job = Job(Settings(dataset="cora"), measure="rank_k")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Records(Path(folder)).add(job, Times(low_rank_ms=1.0, dense_ms=100.0))
    ...     Records(Path(folder)).get(job).dense_ms
    100.0
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known: dict[Job, JsonRecord] = {}
        path = folder / "settings.json"
        stored = json.loads(path.read_text()) if path.exists() else {}
        self._defaults = {**default_values(), **stored}
        self._stored = self._defaults.keys() == stored.keys()
        for path in sorted(folder.glob("*.jsonl")):
            for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], 1):
                try:
                    self._read(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(f"{path}, line {number} is not a record of this version: {error}") from error

    def _read(self, line: dict[str, Any]) -> None:
        if "job" not in line:  # of a search
            return
        job = Job.from_json(line.pop("job"), self._defaults)
        seed = {} if job.measure else {"seed": job.settings.first_seed}
        self._known[job] = figures_of(job).from_json({**seed, **line})

    def get(self, job: Job) -> Any:
        """The figures of a job, or None."""
        return self._known.get(job)

    def of(self, jobs: Iterable[Job]) -> list[Any]:
        """The figures of the jobs that have finished, in order."""
        return [figures for job in jobs if (figures := self.get(job)) is not None]

    def add(self, job: Job, figures: JsonRecord) -> None:
        """Appends a line, and returns when it is on the disk."""
        line = figures.to_json()
        if not job.measure:
            del line["seed"]  # it is in the settings
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self._stored:  # the file does not exist, or the program has more settings since
            write_atomic(self.folder / "settings.json", json.dumps(self._defaults, indent=1) + "\n")
            self._stored = True
        with open(self.folder / f"{job.group}.jsonl", "ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(0)
            if end and not (content := file.read()).endswith(b"\n"):
                file.truncate(content.rfind(b"\n") + 1)
            file.write(json.dumps({"job": job.to_json(self._defaults), **line}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._known[job] = figures

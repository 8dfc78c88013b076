"""Names: of data sets, of kinds of noise, and of a data set with noise. Imports neither torch nor DGL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

NOISE_KINDS = ("uniform", "heterophilous", "similar", "hubs")


class Counts(NamedTuple):
    """Sizes of a data set."""

    nodes: int
    edges: int
    feats: int
    classes: int


class Published(NamedTuple):
    """A data set that DGL downloads: the names of its folder, DGL's first, and its sizes."""

    folders: tuple[str, ...]
    counts: Counts


PUBLISHED = {
    "cora": Published(("cora_v2_d697a464", "cora_v2", "cora"), Counts(2708, 10556, 1433, 7)),
    "citeseer": Published(("citeseer_d6836239", "citeseer"), Counts(3327, 9228, 3703, 6)),
    "pubmed": Published(("pubmed_35464cad", "pubmed"), Counts(19717, 88651, 500, 3)),
    "ppi": Published(("ppi_4b14ad03", "ppi"), Counts(56944, 1644208, 50, 121)),
}
GENERATED = {"synthetic": Counts(1008, 10000, 30, 5), "planted": Counts(1000, 10000, 30, 5)}  # with seed 0


class DataName(NamedTuple):
    """What a data set with noise is called on the command line, in file names and in tables.

    Attributes
    ----------
    dataset : str
        Name of the data set.
    noise_edges : int
        Number of node pairs connected as noise. Default: 0.
    task : str
        ``"node"`` or ``"link"``. Default: ``"node"``.

    Examples
    --------
    >>> from dgl_ptdnet.data.names import DataName
    >>> str(DataName("cora", 20000)), str(DataName("cora", task="link"))
    ('cora+20000', 'cora-link')
    >>> DataName.parse("cora+20000")
    DataName(dataset='cora', noise_edges=20000, task='node')
    """

    dataset: str
    noise_edges: int = 0
    task: str = "node"

    def __str__(self) -> str:
        noise = f"+{self.noise_edges}" if self.noise_edges else ""
        return self.dataset + noise + ("" if self.task == "node" else f"-{self.task}")

    @classmethod
    def parse(cls, name: str) -> DataName:
        """The reverse of ``str``. A number after ``+`` is noise, everything else belongs to the data set's name."""
        start, dash, task = name.rpartition("-")
        if not (dash and task == "link"):
            start, task = name, "node"
        dataset, plus, noise = start.rpartition("+")
        if plus and noise.isdecimal():
            return cls(dataset, int(noise), task)
        return cls(start, 0, task)


def find_folder(name: str, data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The first folder of a published data set that exists, in ``data_dir`` or else in DGL's own download folder."""
    root = Path(data_dir or os.environ.get("DGL_DOWNLOAD_DIR") or "~/.dgl").expanduser()
    return next((root / folder for folder in PUBLISHED[name].folders if (root / folder).is_dir()), None)


class Row(NamedTuple):
    """A data set that :func:`dgl_ptdnet.data.load` knows by name: its sizes, and where it would be loaded from."""

    name: str
    nodes: int
    edges: int
    feats: int
    classes: int
    where: str


def available(data_dir: str | os.PathLike[str] | None = None) -> list[Row]:
    """Lists the data sets that have a name. No data is read.

    Parameters
    ----------
    data_dir : str, optional
        Folder with DGL's raw folders, as for :func:`dgl_ptdnet.data.load`. Default: DGL's own download folder.

    Returns
    -------
    list[Row]
        Name, nodes, edges, features, classes, and where it is: a folder, ``"download"`` (only without ``data_dir``), or
        ``"generated"``. Sizes of published sets are the published ones, those of generated sets are for seed 0.

    Examples
    --------
    >>> from dgl_ptdnet.data import available
    >>> [(row.name, row.nodes) for row in available()][:2]
    [('cora', 2708), ('citeseer', 3327)]
    """
    absent = "download" if data_dir is None else f"not in {data_dir}"
    rows = [Row(name, *known.counts, str(find_folder(name, data_dir) or absent)) for name, known in PUBLISHED.items()]
    return rows + [Row(name, *counts, "generated") for name, counts in GENERATED.items()]

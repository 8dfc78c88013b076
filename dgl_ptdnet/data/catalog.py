"""Data sets by name, from a folder or by download."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import dgl.data

from .dataset import Dataset
from .files import read_file
from .generated import planted, synthetic
from .planetoid import read_planetoid
from .ppi import read_ppi
from .reading import reading


class _Published(NamedTuple):
    folders: tuple[str, ...]  # as DGL names them, with and without its hash of the address
    read: Callable[[Path, str], Dataset]
    dgl_class: type
    counts: tuple[int, int, int, int]


_PUBLISHED = {
    "cora": _Published(
        ("cora_v2_d697a464", "cora_v2", "cora"), read_planetoid, dgl.data.CoraGraphDataset, (2708, 10556, 1433, 7)
    ),
    "citeseer": _Published(
        ("citeseer_d6836239", "citeseer"), read_planetoid, dgl.data.CiteseerGraphDataset, (3327, 9228, 3703, 6)
    ),
    "pubmed": _Published(
        ("pubmed_35464cad", "pubmed"), read_planetoid, dgl.data.PubmedGraphDataset, (19717, 88651, 500, 3)
    ),
    "ppi": _Published(("ppi_4b14ad03", "ppi"), read_ppi, dgl.data.PPIDataset, (56944, 1644208, 50, 121)),
}
_GENERATED: dict[str, Callable[..., Dataset]] = {"synthetic": synthetic, "planted": planted}


def load(name: str, data_dir: str | os.PathLike[str] | None = None, *, seed: int = 0) -> Dataset:
    r"""Loads a data set by name, or from a file or folder.

    Parameters
    ----------
    name : str
        One of:

        * ``"cora"``, ``"citeseer"``, ``"pubmed"`` (with the public splits) or ``"ppi"``, in any case of letters;
        * ``"synthetic"`` or ``"planted"``: see :func:`synthetic` and :func:`planted`;
        * the path of a ``.bin`` file that ``dgl.save_graphs`` wrote, with the fields of :meth:`Dataset.from_graphs`;
        * the path of a ``.npz`` file with the arrays ``node_features``, ``node_labels``, ``edges`` :math:`(E, 2)` and,
          if wanted, ``train_masks``, ``val_masks`` and ``test_masks`` :math:`(S, N)`, or with ``adj_data``,
          ``adj_indices``, ``adj_indptr``, ``attr_data``, ``attr_indices``, ``attr_indptr`` (or ``attr_matrix``) and
          ``labels``;
        * the path of a folder with ``edges.csv`` (two columns of node numbers from 0), ``features.csv`` or
          ``features.npy`` (a row for each node), ``labels.csv`` (a row for each node: a class from 0, or -1 where it is
          not known; or zeros and ones for several labels) and, if wanted, ``split.csv`` (a row for each node:
          ``train``, ``val``, ``test`` or ``none``). A first line of names is skipped.

        Edges of ``.npz`` and CSV files get their reverse, and are counted once.
    data_dir : str, optional
        Where the four published sets are: a folder that holds DGL's raw folders (``cora_v2_d697a464``, or without the
        hash, and so on). It is only read, and nothing is downloaded. Without it DGL's own folder is looked into, and
        DGL downloads what is not there.
    seed : int
        Seed of generated graphs and of splits: without masks it draws 60/20/20 %; of several given splits it takes
        number ``seed`` modulo their number. The published sets do not depend on it.

    Returns
    -------
    Dataset
        Citation graphs as DGL's own classes give them, with row-normalised features and no self-loops added; PPI with
        the self-loops of its files.

    Notes
    -----
    Nothing is executed that a file says: the pickles of the citation graphs are read by an unpickler that admits
    arrays, sparse matrices, dicts, lists and numbers only, and ``.npz`` files without pickled objects.

    Examples
    --------
    >>> from dgl_ptdnet.data import load
    >>> load("planted", seed=1).graph.num_nodes()
    1000
    """
    key = name.lower()
    if key in _PUBLISHED:
        known, folder = _PUBLISHED[key], _folder(key, data_dir)
        if folder is None and data_dir is not None:
            raise FileNotFoundError(
                f"there is no {known.folders[0]} (or {' or '.join(known.folders[1:])}) in {data_dir}. "
                "Put DGL's raw folder there, or leave out the data folder to download it"
            )
        folder = folder or _download(known)
        with reading(folder):
            return known.read(folder, key)
    if key in _GENERATED:
        return _GENERATED[key](seed)
    path = Path(name).expanduser()
    if path.exists() or path.suffix in (".npz", ".bin") or len(path.parts) > 1:
        return read_file(path, seed)
    raise ValueError(
        f"there is no data set {name!r}. There are {', '.join([*_PUBLISHED, *_GENERATED])}, or give the path of a .npz "
        "file, of a .bin file of dgl.save_graphs, or of a folder with edges.csv"
    )


def _folder(key: str, data_dir: str | os.PathLike[str] | None) -> Path | None:
    """The first of the set's folders that is there, if any."""
    root = Path(data_dir or os.environ.get("DGL_DOWNLOAD_DIR") or "~/.dgl").expanduser()
    return next((root / folder for folder in _PUBLISHED[key].folders if (root / folder).is_dir()), None)


def _download(known: _Published) -> Path:
    class Raw(known.dgl_class):  # type: ignore[name-defined]
        """DGL's download of the files, without its reading of them."""

        def has_cache(self) -> bool:
            return False

        def process(self) -> None:
            pass

        def save(self) -> None:
            pass

    try:
        return Path(Raw(verbose=False).raw_path)
    except Exception as error:
        raise ConnectionError(
            f"{known.folders[-1]} cannot be downloaded: {error}. Without a network, give a folder that holds "
            f"{known.folders[0]}: data_dir=..., or --data-dir on the command line"
        ) from error


class Row(NamedTuple):
    """A data set that :func:`load` knows by name, and where it would come from."""

    name: str
    nodes: int
    edges: int
    feats: int
    classes: int
    where: str


def available(data_dir: str | os.PathLike[str] | None = None) -> list[Row]:
    """The data sets that have a name.

    Parameters
    ----------
    data_dir : str, optional
        As that of :func:`load`.

    Returns
    -------
    list[Row]
        Name, nodes, edges, features, classes, and where it is: a folder, ``"download"`` (where no folder is given), or
        ``"generated"``. Counts of
        published sets are the published ones; their files are not read.

    Examples
    --------
    >>> from dgl_ptdnet.data import available
    >>> [(row.name, row.nodes) for row in available()][:2]
    [('cora', 2708), ('citeseer', 3327)]
    """
    absent = "download" if data_dir is None else f"not in {data_dir}"
    rows = [Row(key, *known.counts, str(_folder(key, data_dir) or absent)) for key, known in _PUBLISHED.items()]
    for key, make in _GENERATED.items():
        g = (data := make()).graph
        rows.append(Row(key, g.num_nodes(), g.num_edges(), data.num_feats, data.num_classes, "generated"))
    return rows

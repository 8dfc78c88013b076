"""Data sets by name, from a folder or by download."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._dgl import dgl
from ..errors import first_line
from .dataset import Dataset
from .files import read_file
from .generated import planted, synthetic
from .names import PUBLISHED, find_folder
from .planetoid import read_planetoid
from .ppi import read_ppi
from .reading import reading

_READERS: dict[str, Callable[[Path, str], Dataset]] = {
    **dict.fromkeys(("cora", "citeseer", "pubmed"), read_planetoid),
    "ppi": read_ppi,
}
_DGL_CLASSES = {
    "cora": "CoraGraphDataset",
    "citeseer": "CiteseerGraphDataset",
    "pubmed": "PubmedGraphDataset",
    "ppi": "PPIDataset",
}
_MAKERS: dict[str, Callable[..., Dataset]] = {"synthetic": synthetic, "planted": planted}


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
          optionally, ``train_masks``, ``val_masks`` and ``test_masks`` :math:`(S, N)`, or with ``adj_data``,
          ``adj_indices``, ``adj_indptr``, ``attr_data``, ``attr_indices``, ``attr_indptr`` (or ``attr_matrix``) and
          ``labels``;
        * the path of a folder with ``edges.csv`` (two columns of node numbers from 0), ``features.csv`` or
          ``features.npy`` (a row for each node), ``labels.csv`` (a row for each node: a class from 0, or -1 if it is
          unknown; or zeros and ones for several labels) and, optionally, ``split.csv`` (a row for each node:
          ``train``, ``val``, ``test`` or ``none``). A first line of names is skipped.

        Edges of ``.npz`` and CSV files are made undirected; duplicates are removed.
    data_dir : str, optional
        Folder with DGL's raw folders of the four published sets (``cora_v2_d697a464``, or without the hash, and so on).
        It is only read, and nothing is downloaded. Default: DGL's own download folder, into which DGL downloads a
        missing set.
    seed : int
        Seed of generated graphs and of splits. Without masks, 60/20/20 % of the nodes are drawn; if there are several
        splits, number ``seed`` modulo their number is used. The published sets do not depend on it. Default: 0.

    Returns
    -------
    Dataset
        Citation graphs as from DGL's own classes, with row-normalised features and no self-loops added; PPI with
        the self-loops of its files.

    Notes
    -----
    No code in a file is run: the pickles of the citation graphs are read by an unpickler that admits only arrays of
    numbers, sparse matrices, dicts, lists and numbers, and ``.npz`` files are read without pickled objects.

    Examples
    --------
    >>> from dgl_ptdnet.data import load
    >>> load("planted", seed=1).graph.num_nodes()
    1000
    """
    key = name.lower()
    if key in PUBLISHED:
        folder, folders = find_folder(key, data_dir), PUBLISHED[key].folders
        if folder is None and data_dir is not None:
            raise FileNotFoundError(
                f"there is no {folders[0]} (or {' or '.join(folders[1:])}) in {data_dir}. "
                "Put DGL's raw folder there, or leave out the data folder to download it"
            )
        folder = folder or _download(key)
        with reading(folder):
            return _READERS[key](folder, key)
    if key in _MAKERS:
        return _MAKERS[key](seed)
    path = Path(name).expanduser()
    if path.exists() or path.suffix in (".npz", ".bin") or len(path.parts) > 1:
        return read_file(path, seed)
    raise ValueError(
        f"there is no data set {name!r}. There are {', '.join([*PUBLISHED, *_MAKERS])}, or give the path of a .npz "
        "file, of a .bin file of dgl.save_graphs, or of a folder with edges.csv"
    )


def _download(key: str) -> Path:
    dgl_class: Any = getattr(dgl.data, _DGL_CLASSES[key])

    class Raw(dgl_class):
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
        folders = PUBLISHED[key].folders
        raise ConnectionError(
            f"{folders[-1]} cannot be downloaded: {first_line(error)}. Without a network, give a folder that holds "
            f"{folders[0]}: data_dir=..., or --data-dir on the command line"
        ) from error

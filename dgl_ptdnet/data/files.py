"""Graphs from a user's own files: ``.npz`` in two layouts, ``.bin`` of ``dgl.save_graphs``, folders of CSV files."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from .._dgl import dgl
from ..errors import first_line
from .dataset import SPLITS, Dataset
from .reading import reading
from .undirected import Ints, undirected

_WITH_MARK = "utf-8-sig"  # spreadsheets put a mark before the first byte, which is no part of the first cell


def read_file(path: Path, seed: int) -> Dataset:
    """The graph or graphs in ``path``, checked; ``seed`` makes or chooses the split."""
    if not path.exists():
        raise FileNotFoundError(f"there is no {path}")
    with reading(path):
        if path.is_dir():
            graphs = [_read_csv(path)]
        elif path.suffix == ".npz":
            graphs = [_read_npz(path)]
        elif path.suffix == ".bin":
            graphs = _read_bin(path)
        else:
            raise ValueError(f"{path} must be a .npz file, a .bin file of dgl.save_graphs, or a folder with edges.csv")
    return Dataset.from_graphs(graphs, name=path.stem, seed=seed)


def _read_bin(path: Path) -> list[dgl.DGLGraph]:
    try:
        return dgl.load_graphs(str(path))[0]
    except Exception as error:  # dgl raises its own, and what its C++ part raises
        raise ValueError(f"{path} is not a file that dgl.save_graphs wrote: {first_line(error)}") from error


def _graph(path: Path, src: Ints, dst: Ints, feat: NDArray[Any], label: NDArray[Any]) -> dgl.DGLGraph:
    for what, array in (("features", feat), ("labels", label)):
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{path}: {what} must be numbers; got {array.dtype}. Number the classes from 0")
    num_nodes = len(feat)
    if len(label) != num_nodes:
        raise ValueError(f"{path}: there are features of {num_nodes:,} nodes, but labels of {len(label):,}")
    ids = np.concatenate([src, dst])
    if len(ids) and (ids.min() < 0 or ids.max() >= num_nodes):
        raise ValueError(
            f"{path}: edges must join nodes 0 to {num_nodes - 1:,}, the rows of the features; "
            f"found {ids.min():,} to {ids.max():,}"
        )
    g = undirected(src, dst, num_nodes)
    g.ndata["feat"] = torch.from_numpy(feat.astype(np.float32))
    g.ndata["label"] = torch.from_numpy(label.astype(np.float64))
    return g


class _Arrays:
    """The arrays of a .npz file. Nothing is unpickled, and arrays that nobody asks for are not read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = np.load(path, allow_pickle=False)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is not a .npz file, or not a whole one: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self.file

    def __getitem__(self, name: str) -> Any:
        if name not in self.file:
            raise ValueError(
                f"{self.path} has no {name}, only {', '.join(self.file) or 'nothing'}. It needs node_features, "
                "node_labels, edges and, if wanted, train_masks, val_masks, test_masks; or adj_data, adj_indices, "
                "adj_indptr, attr_data, attr_indices, attr_indptr (or attr_matrix) and labels"
            )
        try:
            return self.file[name]
        except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{self.path}: {name} cannot be read as an array of numbers: {error}") from error


def _read_npz(path: Path) -> dgl.DGLGraph:
    arrays = _Arrays(path)
    return _from_csr(path, arrays) if "adj_indptr" in arrays else _from_edges(path, arrays)


def _from_edges(path: Path, arrays: _Arrays) -> dgl.DGLGraph:
    edges = arrays["edges"]
    if edges.dtype.kind not in "iu":
        raise ValueError(f"{path}: edges must be whole numbers, of nodes from 0; got {edges.dtype}")
    if edges.ndim != 2 or 2 not in edges.shape:
        raise ValueError(f"{path}: edges must be [E, 2], source and destination; got shape {edges.shape}")
    src, dst = (edges.T if edges.shape[1] == 2 else edges).astype(np.int64)
    g = _graph(path, src, dst, arrays["node_features"], arrays["node_labels"])
    for split in SPLITS:
        if f"{split}_masks" in arrays:  # [S, N]: S splits
            masks = np.atleast_2d(arrays[f"{split}_masks"]).astype(bool)
            if g.num_nodes() not in masks.shape or masks.ndim > 2:
                raise ValueError(
                    f"{path}: {split}_masks must be [S, N], a row of {g.num_nodes():,} nodes for each of S splits; got "
                    f"shape {masks.shape}"
                )
            g.ndata[f"{split}_mask"] = torch.from_numpy(masks.T if masks.shape[1] == g.num_nodes() else masks)
    return g


def _from_csr(path: Path, arrays: _Arrays) -> dgl.DGLGraph:
    linked = arrays["adj_data"] != 0
    indptr = arrays["adj_indptr"].astype(np.int64)
    src, dst = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)), arrays["adj_indices"].astype(np.int64)
    if "attr_matrix" in arrays:
        feat = arrays["attr_matrix"]
    else:
        parts = tuple(arrays[f"attr_{part}"] for part in ("data", "indices", "indptr"))
        shape = tuple(arrays["attr_shape"]) if "attr_shape" in arrays else None
        feat = scipy.sparse.csr_matrix(parts, shape=shape).astype(np.float32).toarray()
    return _graph(path, src[linked], dst[linked], feat, arrays["labels"])


def _read_csv(folder: Path) -> dgl.DGLGraph:
    edges = _table(folder / "edges.csv", np.int64)
    edges = edges if edges.size else edges.reshape(0, 2)
    if edges.shape[1] != 2:
        raise ValueError(f"{folder / 'edges.csv'} must have two columns, source and destination; got {edges.shape[1]}")
    array = folder / "features.npy"
    feat = _npy(array) if array.exists() else _table(folder / "features.csv", np.float32)
    g = _graph(folder, edges[:, 0], edges[:, 1], feat, _table(folder / "labels.csv", np.int64))
    split_file = folder / "split.csv"
    if split_file.exists():
        rows = [row.strip() for row in split_file.read_text(_WITH_MARK).splitlines()]
        words = {*SPLITS, "none"}
        rows = rows[1:] if rows and rows[0] not in words else rows
        if len(rows) != g.num_nodes() or not words.issuperset(rows):
            raise ValueError(
                f"{split_file} must have a row for each of the {g.num_nodes():,} nodes: train, val, test or none; got "
                f"{len(rows):,} rows of {', '.join(map(repr, sorted({*rows})[:5]))}"
            )
        for split in SPLITS:
            g.ndata[f"{split}_mask"] = torch.tensor([row == split for row in rows])
    return g


def _npy(path: Path) -> Any:
    try:
        return np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an array of numbers: {error}") from error


def _table(path: Path, dtype: Any) -> Any:
    """The numbers of a CSV file, [rows, columns], with or without a line of names above them."""
    if not path.exists():
        raise FileNotFoundError(
            f"there is no {path}. The folder needs edges.csv (source,destination), features.csv or features.npy (a row "
            "for each node) and labels.csv (a row for each node); split.csv (train, val, test or none) may be added"
        )
    with open(path, encoding=_WITH_MARK) as file:
        named = not all(_is_number(cell) for cell in file.readline().split(","))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # no rows: a graph may have no edges
            return np.loadtxt(path, dtype, delimiter=",", skiprows=int(named), ndmin=2, encoding=_WITH_MARK)
    except ValueError as error:
        raise ValueError(f"{path} must hold numbers between commas ({np.dtype(dtype).name}): {error}") from error


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

"""Graphs from the user's own files: ``.npz`` in two layouts, ``.bin`` of ``dgl.save_graphs``, folders of CSV files."""

from __future__ import annotations

import faulthandler
import functools
import math
import os
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._dgl import dgl
from ..errors import first_line
from .csr import checked_csr
from .dataset import SPLITS, Dataset
from .reading import reading
from .undirected import Ints, undirected

_WITH_MARK = "utf-8-sig"  # spreadsheets write a byte order mark, which is not a part of the first cell


def read_file(path: Path, seed: int) -> Dataset:
    """Reads and checks the graph or graphs of a file or folder. The seed draws or chooses the split."""
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
    stat = path.stat()
    if problem := _problem_of_bin(path.resolve(), stat.st_size, stat.st_mtime_ns):
        raise ValueError(f"{path} is not a file that dgl.save_graphs wrote, or not a complete one: {problem}")
    return dgl.load_graphs(str(path))[0]


@functools.lru_cache(maxsize=64)
def _problem_of_bin(path: Path, size: int, modified: int) -> str:
    """What is wrong with a file of dgl.save_graphs, or nothing. A broken file can abort the process in DGL's C++ code,
    so it is read in a child process first."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if not child:
        try:
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # C++ prints why it aborts
            try:
                problem = "" if dgl.load_graphs(str(path))[0] else "it has no graph"
            except BaseException as error:  # dgl raises its own, and what its C++ part raises
                problem = first_line(error)
            os.write(write_end, problem.encode()[:500])
        finally:
            os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        said = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    return f"reading it ends with signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else said


def _available_memory() -> float:
    """Bytes that can be allocated; infinite if that is not known."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * next(float(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        return math.inf


def _check_memory(path: Path, what: str, shape: tuple[int, ...], itemsize: int) -> None:
    needed, there = math.prod(shape) * itemsize, _available_memory()
    if needed > there:
        raise ValueError(
            f"{path}: {what} of shape {shape} needs {needed / 2**30:.1f} GB of memory, but {there / 2**30:.1f} GB are "
            "available"
        )


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
    g.ndata["feat"] = torch.from_numpy(feat.astype(np.float32, copy=False))
    g.ndata["label"] = torch.from_numpy(label.astype(np.float64))
    return g


class _Arrays:
    """The arrays of a .npz file, which are read when they are asked for. Pickled objects are refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.file = zipfile.ZipFile(path)
        except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is not a complete .npz file: {error}") from error
        self.names = [name.removesuffix(".npy") for name in self.file.namelist()]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Any:
        if name not in self.names:
            raise ValueError(
                f"{self.path} has no {name}, only {', '.join(self.names) or 'nothing'}. It needs node_features, "
                "node_labels, edges and, optionally, train_masks, val_masks, test_masks; or adj_data, adj_indices, "
                "adj_indptr, attr_data, attr_indices, attr_indptr (or attr_matrix) and labels"
            )
        try:
            with self.file.open(f"{name}.npy") as member:
                shape, dtype = _header(member)
            _check_memory(self.path, name, shape, dtype.itemsize)  # a small file can unpack to a large array
            with self.file.open(f"{name}.npy") as member:
                return np.lib.format.read_array(member, allow_pickle=False)
        except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
            if str(self.path) in str(error):
                raise
            reason = first_line(error)
            raise ValueError(f"{self.path}: {name} cannot be read as an array of numbers: {reason}") from error


def _header(file: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and dtype of an array in numpy's format."""
    major, _ = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return shape, dtype


def _read_npz(path: Path) -> dgl.DGLGraph:
    arrays = _Arrays(path)
    return _from_csr(path, arrays) if "adj_indptr" in arrays else _from_edges(path, arrays)


def _from_edges(path: Path, arrays: _Arrays) -> dgl.DGLGraph:
    edges = arrays["edges"]
    if edges.dtype.kind not in "iu":
        raise ValueError(f"{path}: edges must be integers, the numbers of nodes from 0; got {edges.dtype}")
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
    def matrix(prefix: str) -> Any:
        parts = (arrays[f"{prefix}_data"], arrays[f"{prefix}_indices"], arrays[f"{prefix}_indptr"])
        shape = arrays[f"{prefix}_shape"].tolist() if f"{prefix}_shape" in arrays else None
        try:
            return checked_csr(parts, shape)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {prefix}_data, {prefix}_indices, {prefix}_indptr: {error}") from error

    links = matrix("adj").tocoo()
    if "attr_matrix" in arrays:
        feat = arrays["attr_matrix"]
    else:
        rows = matrix("attr").astype(np.float32)
        _check_memory(path, "the matrix of features", rows.shape, 4)
        feat = rows.toarray()
    linked = links.data != 0
    src, dst = (ends[linked].astype(np.int64) for ends in (links.row, links.col))
    return _graph(path, src, dst, feat, arrays["labels"])


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
    """The numbers of a CSV file, [rows, columns]. A first line of names is skipped."""
    if not path.exists():
        raise FileNotFoundError(
            f"there is no {path}. The folder needs edges.csv (source,destination), features.csv or features.npy (a row "
            "for each node) and labels.csv (a row for each node); split.csv (train, val, test or none) is optional"
        )
    with open(path, encoding=_WITH_MARK) as file:
        first = file.readline().rstrip("\n").split(",")
    numbers = [_is_number(cell) for cell in first]
    named = not any(numbers)
    if not named and not all(numbers):
        wrong = first[numbers.index(False)]
        raise ValueError(f"{path}: {wrong!r} in the first line is no number. The line must hold numbers, or only names")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about no rows: a graph may have no edges
            return np.loadtxt(path, dtype, delimiter=",", skiprows=int(named), ndmin=2, encoding=_WITH_MARK)
    except ValueError as error:
        raise ValueError(
            f"{path} must hold numbers between commas ({np.dtype(dtype).name}): {first_line(error)}. Number nodes and "
            "classes from 0"
        ) from error


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True

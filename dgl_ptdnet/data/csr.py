"""Sparse matrices in compressed rows, from files."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray


def checked_csr(parts: tuple[NDArray[Any], NDArray[Any], NDArray[Any]], shape: Any = None) -> scipy.sparse.csr_matrix:
    """A CSR matrix from its parts. scipy does not check them fully, and writes out of bounds if they are wrong.

    Parameters
    ----------
    parts : tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]
        Data and indices: value and column of each entry, :math:`(nnz,)`; indptr: where each row begins, and where the
        last one ends, :math:`(rows + 1,)`.
    shape : tuple[int, int], optional
        Rows and columns. Default: as many as the parts have.

    Examples
    --------
    >>> import numpy as np
    >>> from dgl_ptdnet.data.csr import checked_csr
    >>> checked_csr((np.array([5.0]), np.array([1]), np.array([0, 1]))).toarray().tolist()
    [[0.0, 5.0]]
    """
    data, indices, indptr = parts
    for name, part in (("data", data), ("indices", indices), ("indptr", indptr)):
        if part.ndim != 1 or part.dtype.kind not in ("biuf" if name == "data" else "iu"):
            kind = "numbers" if name == "data" else "whole numbers"
            raise ValueError(f"{name} of a sparse matrix must be a row of {kind}; got {part.dtype} of {part.shape}")
    if not len(indptr) or indptr[0] != 0 or (np.diff(indptr.astype(np.int64)) < 0).any():
        raise ValueError("indptr of a sparse matrix must begin with 0 and not decrease")
    if not len(data) == len(indices) == indptr[-1]:
        raise ValueError(
            f"a sparse matrix must have as many data and indices as indptr says, {int(indptr[-1]):,}; got "
            f"{len(data):,} and {len(indices):,}"
        )
    columns = int(indices.max()) + 1 if len(indices) else 0
    rows, width = (len(indptr) - 1, columns) if shape is None else (int(size) for size in shape)
    if rows != len(indptr) - 1 or columns > width or (len(indices) and indices.min() < 0):
        raise ValueError(
            f"a sparse matrix of {rows:,} rows and {width:,} columns must have indices from 0 to {width - 1:,} and an "
            f"indptr of length {rows + 1:,}; got indices up to {columns - 1:,} and length {len(indptr):,}"
        )
    return scipy.sparse.csr_matrix((data, indices, indptr), shape=(rows, width))

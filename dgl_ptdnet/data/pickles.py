"""Pickled files of numbers, read without executing them."""

from __future__ import annotations

import collections
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse


class _Csr:
    """Takes the attributes of a pickled csr_matrix; the matrix is made from them by scipy, which checks them."""

    def matrix(self) -> scipy.sparse.csr_matrix:
        state = self.__dict__
        return scipy.sparse.csr_matrix((state["data"], state["indices"], state["indptr"]), shape=state["_shape"])


_reconstruct = np.empty(0).__reduce__()[0]  # its module has another name in numpy 2
_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
    ("collections", "defaultdict"): collections.defaultdict,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is refused")
        return _ADMITTED[module, name]


def read_pickle(path: Path) -> Any:
    """The array, sparse matrix, list or dict in a pickled file.

    Pickles can call any function while they are read. Here only numpy arrays, scipy CSR matrices, dicts, lists and
    numbers are made, and a file that asks for anything else is refused by name.

    Parameters
    ----------
    path : pathlib.Path
        The file; it may have been written by Python 2.

    Returns
    -------
    object
        What the file holds.
    """
    with open(path, "rb") as file:
        try:
            value = _Unpickler(file, encoding="latin1").load()
            return value.matrix() if isinstance(value, _Csr) else value
        except Exception as error:  # a broken pickle raises nearly anything
            raise ValueError(
                f"{path} is not a pickle of arrays, sparse matrices, dicts, lists and numbers: {error}. "
                "Get the file again from where it is published"
            ) from error

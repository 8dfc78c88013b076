"""Pickled files of numbers, read without running any code in them."""

from __future__ import annotations

import collections
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import first_line
from .csr import checked_csr


class _Dtype:
    """Takes the place of numpy's dtype: plain numbers only. Flags of other dtypes would turn bytes into pointers."""

    def __init__(self, code: Any, *rest: Any) -> None:
        if not isinstance(code, str) or not re.fullmatch(r"b1|[iu][1248]|f[248]", code):
            raise pickle.UnpicklingError(f"an array of {str(code)[:20]!r} is refused: arrays must hold numbers")
        self.code, self.order = code, "|"

    def __setstate__(self, state: Any) -> None:
        if state[1] not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("an array of a structured dtype is refused: arrays must hold numbers")
        self.order = state[1]

    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.order + self.code)


class _Array:
    """Takes the place of numpy's ndarray: shape, dtype and bytes, from which the array is made."""

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, data = state
        data = data.encode("latin1") if isinstance(data, str) else data  # of Python 2
        if not isinstance(dtype, _Dtype) or not isinstance(data, (bytes, bytearray)):
            raise pickle.UnpicklingError("an array without plain numbers is refused")
        if not all(type(size) is int and size >= 0 for size in shape):
            raise pickle.UnpicklingError(f"an array has the shape {shape}")
        self.array = np.frombuffer(data, dtype.dtype()).reshape(shape, order="F" if fortran else "C")


class _Reconstruct:
    """Takes the place of the function with which numpy's pickles make an empty array. A pickle cannot change it."""

    __slots__ = ()

    def __call__(self, *ignored: Any) -> _Array:
        return _Array()


class _Csr:
    """Takes the place of scipy's csr_matrix: its parts, from which the matrix is made."""

    def __setstate__(self, state: Any) -> None:
        self.parts = (state["data"].array, state["indices"].array, state["indptr"].array)
        self.shape = state["_shape"]


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct(),
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct(),
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
    """Reads an array of numbers, a sparse matrix, or a list or dict of numbers from a pickled file.

    A pickle can call any function while it is read. Here only plain values, lists and dicts are made; arrays and CSR
    matrices are built from their checked parts, and a file that asks for anything else is refused.

    Parameters
    ----------
    path : pathlib.Path
        The file. It may have been written by Python 2.

    Returns
    -------
    object
        The contents of the file.
    """
    with open(path, "rb") as file:
        try:
            value = _Unpickler(file, encoding="latin1").load()
            if isinstance(value, _Csr):
                return checked_csr(value.parts, value.shape)
            return value.array if isinstance(value, _Array) else value
        except Exception as error:  # a broken pickle raises nearly anything
            raise ValueError(
                f"{path} is not a pickle of arrays, sparse matrices, dicts, lists and numbers: {first_line(error)}. "
                "Get the file again from where it is published"
            ) from error

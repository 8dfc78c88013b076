"""Pickles that are read without running them."""

import pickle
import shutil

import numpy as np
import pytest
import scipy.sparse
import scipy.stats

from dgl_ptdnet.data.pickles import read_pickle


class Call:
    def __init__(self, function, *args):
        self.reduced = function, args

    def __reduce__(self):
        return self.reduced


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: {0: [x]}])
def test_a_pickle_that_calls_something_is_refused_and_not_executed(protocol, wrap, tmp_path):
    victim, file = tmp_path / "victim", tmp_path / "evil"
    victim.mkdir()
    for function, args in ((shutil.rmtree, (str(victim),)), (eval, ("1",)), (getattr, (1, "real")), (np.load, ("x",))):
        file.write_bytes(pickle.dumps(wrap(Call(function, *args)), protocol))
        with pytest.raises(ValueError, match=rf"evil is not .*asks for \S*{function.__name__}, which is refused"):
            read_pickle(file)
    assert victim.exists()


@pytest.mark.parametrize("content", [b"", b"\x80", b"cos\nsystem\n(S'false'\ntR.", b"\x80\x02]q\x00(K\x01", b"Pid\n."])
def test_a_broken_pickle_is_named(content, tmp_path):
    (tmp_path / "broken").write_bytes(content)
    with pytest.raises(ValueError, match="broken is not a pickle"):
        read_pickle(tmp_path / "broken")


def test_arrays_and_sparse_matrices_of_this_version_are_read(tmp_path):
    matrix = scipy.sparse.random(5, 7, 0.5, format="csr", random_state=0)
    file = tmp_path / "x"
    file.write_bytes(pickle.dumps(matrix, 4))
    assert (read_pickle(file) != matrix).nnz == 0
    file.write_bytes(pickle.dumps(np.arange(6.0).reshape(2, 3), 4))
    assert np.array_equal(read_pickle(file), np.arange(6.0).reshape(2, 3))


def array_pickle(code, state, data, shape=(2,)):
    """A pickled array whose dtype and bytes are as given, as an attacker would write them."""

    class Dtype:
        def __reduce__(self):
            return np.dtype, (code, False, True), state

    class Array:
        def __reduce__(self):
            return np.empty(0).__reduce__()[0], (np.ndarray, (0,), b"b"), (1, shape, Dtype(), False, data)

    return pickle.dumps(Array(), 4)


PLAIN = (3, "<", None, None, None, -1, -1, 0)


@pytest.mark.parametrize(
    ("code", "state", "data", "shape"),
    [
        ("O8", (3, "|", None, None, None, -1, -1, 0), b"A" * 16, (2,)),  # bytes as pointers
        ("O8", (3, "|", None, None, None, -1, -1, 63), b"A" * 16, (2,)),
        ("f8", (3, "<", None, ("a",), {"a": (np.dtype("O"), 0)}, 8, 1, 27), b"A" * 16, (2,)),
        ("V8", PLAIN, b"A" * 16, (2,)),
        ("U2", PLAIN, b"A" * 16, (2,)),
        ("f8", PLAIN, b"A" * 8, (2,)),
        ("f8", PLAIN, b"A" * 16, (2**40,)),
        ("f8", PLAIN, b"A" * 16, (-2,)),
        ("f8", PLAIN, b"A" * 16, (2**33, 2**31)),
        ("f8", PLAIN, ["A"], (2,)),
    ],
)
def test_arrays_of_anything_but_numbers_are_refused(code, state, data, shape, tmp_path):
    (tmp_path / "evil").write_bytes(array_pickle(code, state, data, shape))
    with pytest.raises(ValueError, match="evil is not a pickle of arrays"):
        read_pickle(tmp_path / "evil")


def test_arrays_of_numbers_are_read_from_their_bytes(tmp_path):
    (tmp_path / "good").write_bytes(array_pickle("i2", (3, ">", None, None, None, -1, -1, 0), b"\x00\x01\x01\x00"))
    assert read_pickle(tmp_path / "good").tolist() == [1, 256]


@pytest.mark.parametrize(
    "change", [{"indices": np.array([99, 0])}, {"indices": np.array([-5, 0])}, {"indptr": np.array([0, 9, 2])}]
)
def test_a_matrix_with_wrong_parts_is_refused(change, tmp_path):
    matrix = scipy.sparse.csr_matrix(np.eye(2))
    for name, part in change.items():
        setattr(matrix, name, part)
    (tmp_path / "odd").write_bytes(pickle.dumps(matrix, 4))
    with pytest.raises(ValueError, match=r"odd is not a pickle of .*: (a|indptr of a|indices of a) sparse matrix"):
        read_pickle(tmp_path / "odd")


def test_a_pickle_cannot_change_what_reads_it(tmp_path):
    for name in (b"numpy.core.multiarray\n_reconstruct\n", b"numpy\ndtype\n", b"numpy\nndarray\n"):
        (tmp_path / "evil").write_bytes(b"\x80\x02c" + name + b"N}X\x08\x00\x00\x00__init__K\x01s\x86b.")
        with pytest.raises(ValueError, match="evil is not a pickle"):
            read_pickle(tmp_path / "evil")
    (tmp_path / "good").write_bytes(array_pickle("i1", PLAIN, b"ab"))
    assert read_pickle(tmp_path / "good").tolist() == [97, 98]

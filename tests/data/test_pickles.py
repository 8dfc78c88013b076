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

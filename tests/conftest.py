import os

import pytest
import torch

os.environ.setdefault("DGLBACKEND", "pytorch")

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
LEVELS = ["portable", "avx2", "avx512"]


@pytest.fixture(params=DEVICES)
def device(request):
    """Operator tests take a device: they run on a GPU, too, where there is one."""
    return request.param


@pytest.fixture(params=LEVELS)
def level(request, monkeypatch):
    """Every instruction set that this processor has, by force."""
    import dgl_ptdnet as ptd

    best = ptd.build_info()["cpu_level"]
    if LEVELS.index(request.param) > LEVELS.index(best):
        pytest.skip(f"this processor has no {request.param}")
    monkeypatch.setenv("DGL_PTDNET_CPU_LEVEL", request.param)
    assert ptd.build_info()["cpu_level"] == request.param
    return request.param


@pytest.fixture
def threads():
    """Sets the number of threads, and sets it back."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)

import pytest


@pytest.fixture(autouse=True)
def one_thread(threads):
    """One thread, which train() chooses for small graphs."""
    threads(1)

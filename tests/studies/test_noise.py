"""Accuracy with noisy edges."""

from dgl_ptdnet.data.names import NOISE_KINDS
from dgl_ptdnet.studies import noise
from dgl_ptdnet.studies.jobs import Plan


def test_the_kind_of_noise_reaches_the_runs():
    jobs = noise.jobs(Plan(noise_kind="hubs"))
    assert {(job.settings.noise_kind, job.name) for job in jobs} == {("hubs", "cora+20000")}
    assert {job.settings.noise_kind for job in noise.jobs(Plan())} == set(NOISE_KINDS)
    assert not {*noise.jobs(Plan())}.isdisjoint(jobs)

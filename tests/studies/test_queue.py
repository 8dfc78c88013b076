"""Running jobs in several processes."""

import pytest
from recorded import QUICK, lines, recorded

from dgl_ptdnet.data import synthetic
from dgl_ptdnet.studies.jobs import Job
from dgl_ptdnet.studies.queue import run
from dgl_ptdnet.studies.records import Records
from dgl_ptdnet.train import Settings, train


def test_runs_are_recorded_once_and_are_those_of_train(tmp_path):
    jobs = [QUICK.job(seed, dataset="cora", method="ptdnet") for seed in range(2)]
    records = Records(tmp_path)
    run([*jobs, jobs[0]], records, workers=2)
    found = recorded(tmp_path)
    assert len(found) == 2
    assert set(found) == set(jobs)
    before = lines(tmp_path)
    run(jobs, Records(tmp_path), workers=2)
    assert lines(tmp_path) == before
    for seed, job in enumerate(jobs):
        want = train(job.settings, synthetic(seed, class_size=20, num_pairs=300)).seeds[0].result
        got = records.get(job)
        assert got.test == pytest.approx(want.test, rel=1e-5)
        assert got.edges_kept == pytest.approx(want.edges_kept, rel=1e-5)


def test_a_run_that_fails_is_named_and_others_are_not_lost(tmp_path):
    good = QUICK.job(0, dataset="cora", backbone="gcn", method="basic")
    message = r"a run failed: there is no nowhere.npz. It was .*nowhere.npz"
    with pytest.raises(ValueError, match=message):
        run([Job(Settings(dataset="nowhere.npz", seeds=1)), good], Records(tmp_path), workers=2)
    assert Records(tmp_path).get(good).test >= 0

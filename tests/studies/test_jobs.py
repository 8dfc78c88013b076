"""Jobs, and the graphs that they change."""

import json

import pytest

from dgl_ptdnet.studies.jobs import Job, Plan, Variant, data_of, default_values
from dgl_ptdnet.train import Settings, resolve


def test_jobs_come_back_from_json():
    settings = resolve(dataset="ppi", backbone="gat", method="ptdnet", seeds=1, first_seed=3, fanouts=[5, 5])
    for job in (
        Plan().job_of(settings),
        Plan().job_of(settings, Variant.of("synthetic", num_pairs=300, same_label=0.5)),
        Job(settings, Variant(remove=(True, 0.2)), measure="regularizers", what="curve", alone=True),
    ):
        for defaults in (default_values(), {**default_values(), "lr": 0.7, "backbone": "gat"}):
            again = Job.from_json(json.loads(json.dumps(job.to_json(defaults))), defaults)
            assert again == job
            assert hash(again) == hash(job)


def test_equal_settings_are_one_job():
    plan = Plan(quick=True)
    one, other = (plan.job(1, **given) for given in ({"lr": 0.1, "hidden": 8}, {"hidden": 8, "lr": 0.1}))
    assert one == other
    assert one != plan.job(2, lr=0.1, hidden=8)


def test_jobs_are_named_by_their_data():
    assert Plan().job(0, dataset="cora", noise_edges=20000).name == "cora+20000"
    assert Plan().job(0, dataset="cora", task="link").name == "cora-link"
    assert Plan().job(0, dataset="some/where/mine.npz").group == "mine"


@pytest.mark.parametrize("same", [True, False])
def test_edges_of_one_kind_are_removed_with_their_reverse(same):
    job = Job(Settings(dataset="synthetic"), Variant("synthetic", remove=(same, 0.4)))
    g = data_of(job, None).graph
    src, dst = g.edges()
    equal = g.ndata["label"][src] == g.ndata["label"][dst]
    assert [int((equal == kind).sum()) for kind in (same, not same)] == [3000, 5000]
    assert set(zip(src.tolist(), dst.tolist())) == set(zip(dst.tolist(), src.tolist()))

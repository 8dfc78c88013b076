"""Tables of finished runs."""

from recorded import figures

from dgl_ptdnet.studies.jobs import Plan
from dgl_ptdnet.studies.methods import jobs_of
from dgl_ptdnet.studies.records import Records
from dgl_ptdnet.studies.tables import method_table


def test_where_labels_are_marked_the_test_over_all_has_a_column(tmp_path):
    records = Records(tmp_path)
    plan, given = Plan(), {"dataset": "ppi", "backbone": "sage"}
    assert "all labels" not in method_table(plan, records, given, 2, {}, {})
    for seed, job in enumerate(jobs_of(plan, "Basic", 2, **given)):
        records.add(job, figures(0.9, test_all=0.6 + 0.2 * seed))
    table = method_table(plan, records, given, 2, {}, {})
    assert "| test, all labels |" in table
    assert "| GraphSage: Basic | 0.900 | 0.000 | 2 | 0.500 | – | – | – | – | 0.700 |" in table
    assert "| GCN: Basic | – | – | 0 | – | – | – | – | – | – |" in table

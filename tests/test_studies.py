"""The studies: a queue that loses and repeats nothing, a search by validation alone, a page of records alone."""

import copy
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import dgl
import psutil
import pytest
import torch

from dgl_ptdnet.agreement import Agreement
from dgl_ptdnet.cli import main
from dgl_ptdnet.data import synthetic
from dgl_ptdnet.data.noise import KINDS
from dgl_ptdnet.graph import edges_of
from dgl_ptdnet.studies import STUDIES, classification, jobs, noise, queue, reproduce
from dgl_ptdnet.studies.jobs import Plan, execute, graph_of, group_of, name_of, settings_of
from dgl_ptdnet.studies.page import page_text, write_page
from dgl_ptdnet.studies.queue import Records, key_of, run
from dgl_ptdnet.studies.rank import dense_norm
from dgl_ptdnet.studies.rows import CONTROLS, ROWS, jobs_of, row_of
from dgl_ptdnet.studies.search import SEARCHED, cells_of, search, trials_of
from dgl_ptdnet.studies.tables import Runs, claim, claim_above, holm, method_table, paired_p, why, why_by, with_p
from dgl_ptdnet.train import resolve, train
from dgl_ptdnet.train.loop import Trainer
from dgl_ptdnet.train.models import build
from dgl_ptdnet.train.run import make_data
from dgl_ptdnet.train.settings import CONTROLS as ALL_CONTROLS
from dgl_ptdnet.train.settings import METHODS as ALL_METHODS
from dgl_ptdnet.train.settings import Settings, defaults, update_defaults
from dgl_ptdnet.train.sweep import search_space
from dgl_ptdnet.train.tasks import make_task
from dgl_ptdnet.train.write import locked

ROOT = Path(__file__).parents[1]
QUICK = Plan(quick=True)


def small(**options):
    return synthetic(class_size=20, num_pairs=300, num_feats=12, **options).graph


def lines(folder):
    return {path.name: path.read_bytes().splitlines(True) for path in folder.glob("*.jsonl")}


def keys(folder):
    return [key_of(json.loads(line)["job"]) for of in lines(folder).values() for line in of]


# The queue.


def test_a_line_that_was_cut_off_is_ignored_and_written_anew(tmp_path):
    jobs = [QUICK.job(seed, dataset="cora", method="basic") for seed in range(3)]
    for number, job in enumerate(jobs[:2]):
        Records(tmp_path).add(job, {"test": number})
    path = tmp_path / "cora.jsonl"
    whole = path.read_bytes()
    for cut in (1, 5, len(whole) // 4):
        path.write_bytes(whole[:-cut])
        records = Records(tmp_path)
        assert [r["test"] for r in records.of(jobs)] == [0]
        records.add(jobs[1], {"test": 1})
        assert path.read_bytes() == whole


def test_a_job_is_its_settings_whatever_their_order():
    one, other = (QUICK.job(1, **given) for given in ({"lr": 0.1, "hidden": 8}, {"hidden": 8, "lr": 0.1}))
    assert key_of(one) == key_of(other)
    assert key_of(one) != key_of(QUICK.job(2, lr=0.1, hidden=8))
    assert key_of(json.loads(json.dumps(one))) == key_of(one)


def test_jobs_give_back_their_settings():
    settings = resolve(dataset="ppi", backbone="gat", method="ptdnet", seeds=1, first_seed=3, fanouts=[5, 5])
    assert settings_of(json.loads(json.dumps(Plan().job_of(settings)))) == settings
    assert name_of(Plan().job(0, dataset="cora", noise_edges=20000)) == "cora+20000"
    assert name_of(Plan().job(0, dataset="cora", task="link")) == "cora-link"
    assert group_of(Plan().job(0, dataset="some/where/mine.npz")) == "mine"


def test_two_studies_share_a_run():
    shared = {key_of(job) for job in classification.jobs(Plan())} & {key_of(job) for job in noise.jobs(Plan())}
    assert len(shared) == 5 * (1 + 3 * (len(ROWS) - 1))  # Cora without noise, five seeds, one MLP for all


def test_runs_are_recorded_once_and_are_those_of_train(tmp_path):
    jobs = [QUICK.job(seed, dataset="cora", method="ptdnet") for seed in range(2)]
    records = Records(tmp_path)
    run([*jobs, jobs[0]], records, workers=2)
    assert sorted(keys(tmp_path)) == sorted(map(key_of, jobs))
    before = lines(tmp_path)
    run(jobs, Records(tmp_path), workers=2)
    assert lines(tmp_path) == before
    for seed, job in enumerate(jobs):
        want = train(settings_of(job), synthetic(seed, class_size=20, num_pairs=300)).seeds[0]["result"]
        got = records.get(job)
        assert got["test"] == pytest.approx(want["test"], rel=1e-5)
        assert got["kept"] == pytest.approx(want["kept"], rel=1e-5)


def test_a_folder_that_is_at_work_is_refused(tmp_path, capsys):
    with locked(tmp_path):
        assert main(["reproduce", "--quick", "--only", "statistics", "--out", str(tmp_path)]) == 2
    assert "another process is at work" in capsys.readouterr().err
    assert main(["reproduce", "--only", "statistic"]) == 2
    assert "there is no study 'statistic'; there are statistics, " in capsys.readouterr().err


def test_quick_makes_everything_and_a_kill_costs_nothing(tmp_path):
    command = [sys.executable, "-m", "dgl_ptdnet", "reproduce", "--quick"]
    out, began = tmp_path / "out" / "quick", time.monotonic()
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as running:
        while running.poll() is None and (not out.exists() or sum(map(len, lines(out).values())) < 100):
            time.sleep(0.05)
        workers = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(signal.SIGKILL)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive
    before = lines(out)
    assert 100 <= sum(map(len, before.values())) < 300
    with open(next(out.glob("cora.jsonl")), "ab") as file:
        file.write(b'{"job": {"settings"')
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert time.monotonic() - began < 300
    after = lines(out)
    assert all(after[name][: len(of)] == of for name, of in before.items())
    jobs = {key_of(job) for study in STUDIES.values() for job in study.jobs(QUICK)}
    assert sorted(keys(out)) == sorted(jobs)

    text = (out / "results.md").read_text()
    assert text == page_text(QUICK, Records(out))
    assert all(f"## {study.TITLE}" in text for study in STUDIES.values())
    drawn = {path.stem for path in (out / "results").iterdir()}
    assert drawn == {"noise", "good_bad_edges", "denoising", "regularizers", "rank", "depth"}
    assert all(f"results/{name}.png" in text for name in drawn)
    assert "not run yet" not in text


# The search.


def test_every_method_has_the_same_number_of_trials_and_its_defaults_first():
    for name in SEARCHED:
        cells = cells_of(name)
        searched = {cell["method"] for cell in cells}
        assert searched == ({"basic"} if name == "ppi" else set(ALL_METHODS) - ({"mlp"} if "-link" in name else set()))
        for cell in cells:
            settings = resolve(cell)
            space = search_space(settings)
            trials = trials_of(settings, space, 6)
            assert len(trials) == 6
            assert trials[0] == {value: getattr(settings, value) for value in space}
            assert trials == trials_of(settings, space, 6)
            basic = resolve({**cell, "method": "basic"})
            for trial, other in zip(trials[1:], trials_of(basic, search_space(basic), 6)[1:]):
                assert trial.items() >= other.items()
            for trial in trials:
                replace(settings, **trial)
    with pytest.raises(ValueError, match="there is no search for 'mine'"):
        cells_of("mine")


def test_the_best_by_validation_is_chosen_and_the_test_is_not_looked_at(tmp_path, monkeypatch):
    from dgl_ptdnet.studies import search as module

    ran = []

    def figures(jobs, records, **options):
        for job in jobs:
            if records.get(job) is None:
                ran.append(job)
                s = settings_of(job)
                records.add(job, {"val": round(s.lr, 2), "val_loss": s.weight_decay, "test": -s.lr})

    monkeypatch.setattr(module, "run", figures)
    records = Records(tmp_path)
    search(["synthetic"], records, QUICK, trials=8)
    found = [json.loads(line) for line in (tmp_path / "search.jsonl").read_text().splitlines()]
    assert [row["cell"]["method"] for row in found] == list(ALL_METHODS)
    different = [{json.dumps(x | {"val": 0, "val_loss": 0}): len(x["val"]) for x in row["trials"]} for row in found]
    assert len(ran) == sum(sum(runs.values()) for runs in different)  # what defaults were found by is drawn again
    for row in found:
        assert "test" not in json.dumps(row)
        best = max(row["trials"], key=lambda trial: (round(trial["lr"], 2), -trial["weight_decay"]))
        assert row["trials"][row["chosen"]] == best
        assert sorted(len(trial["val"]) for trial in row["trials"]) == [1] * 6 + [3] * 2
        key = {"dataset": "synthetic", "backbone": "gcn", "method": row["cell"]["method"]}
        written = defaults(key, tmp_path / "defaults")
        assert written == {name: value for name, value in best.items() if not name.startswith("val")}
    before, count = (tmp_path / "search.jsonl").read_bytes(), len(ran)
    search(["synthetic"], Records(tmp_path), QUICK, trials=8)
    assert ((tmp_path / "search.jsonl").read_bytes(), len(ran)) == (before, count)


def test_noise_takes_the_nearest_defaults_and_links_have_their_own(tmp_path):
    for name, lr in (("common", 0.1), ("cora", 0.2), ("cora+20000", 0.3), ("cora+nearly", 0.4), ("cora-link", 0.5)):
        (tmp_path / f"{name}.toml").write_text(f"# {name}\n# second\nlr = {lr}\n")
    for level, lr in ((0, 0.2), (1000, 0.2), (9999, 0.2), (10000, 0.3), (15000, 0.3), (90000, 0.3)):
        assert defaults({"dataset": "cora", "noise_edges": level}, tmp_path) == {"lr": lr}
    assert defaults({"dataset": "cora", "task": "link"}, tmp_path) == {"lr": 0.5}
    assert defaults({"dataset": "pubmed", "task": "link"}, tmp_path) == {"lr": 0.1}
    update_defaults(tmp_path / "cora.toml", "basic", "gcn", {"lr": 0.6})
    assert (tmp_path / "cora.toml").read_text() == "# cora\n# second\nlr = 0.2\n\n[basic.gcn]\nlr = 0.6\n"


# Controls without gates.


def test_controls_are_for_basic():
    with pytest.raises(ValueError, match="control is for the method basic"):
        Settings(method="ptdnet", control="shut")
    settings = [Settings(**row_of(row, dataset="cora")) for row in CONTROLS]
    assert {s.control for s in settings} == set(ALL_CONTROLS)
    assert all(s.method == "basic" and (s.control != "none" or s.samples > 1) for s in settings)
    assert set(ALL_METHODS) == {row["method"] for row in ROWS.values()}


@pytest.mark.parametrize("backbone", ["gcn", "sage", "gat"])
def test_a_shut_layer_does_not_look_at_edges(backbone):
    data = synthetic(class_size=20, num_pairs=300)
    given = {"dataset": "synthetic", "backbone": backbone, "method": "basic", "hidden": 4, "seeds": 1, "epochs": 2}
    given["dropout"] = 0.0  # that of attention draws for every edge, dropped or not
    one, none = (
        train(resolve(given, layers=1, control="shut"), g).seeds[0]["history"]
        for g in (data.graph, ptd_without_edges(data.graph))
    )
    assert [row["val_loss"] for row in one] == pytest.approx([row["val_loss"] for row in none], rel=1e-6)
    open_ = train(resolve(given, layers=1), data.graph).seeds[0]["history"]
    assert open_[-1]["val_loss"] != pytest.approx(one[-1]["val_loss"], rel=1e-6)


def ptd_without_edges(g):
    import dgl

    return dgl.remove_edges(g, torch.arange(g.num_edges()))


def test_the_node_mlp_has_about_the_size_of_a_gate():
    def size(**given):
        model = build(resolve(dataset="cora", backbone="gcn", **given), 1433, 7)
        return sum(parameter.numel() for parameter in model.parameters())

    basic = size(method="basic", hidden=32)
    mlp, gate = size(method="basic", hidden=32, control="node-mlp"), size(method="ptdnet-wl", hidden=32)
    assert mlp - basic == pytest.approx(gate - basic, rel=0.05)


def test_self_training_begins_after_the_warm_up_and_resumes(monkeypatch, tmp_path):
    monkeypatch.setitem(Agreement.__init__.__kwdefaults__, "warmup", 3)
    given = {"dataset": "synthetic", "method": "basic", "hidden": 4, "seeds": 1, "epochs": 6}
    basic, taught = (
        [row["val_loss"] for row in train(resolve(given, control=control), small()).seeds[0]["history"]]
        for control in ("none", "self-training")
    )
    assert taught[:3] == basic[:3]
    assert taught[3] != basic[3]
    settings = resolve(given, control="self-training")
    train(settings, small(), out=tmp_path / "run")
    state = torch.load(tmp_path / "run" / "checkpoint.pt", weights_only=True)
    assert [row["val_loss"] for row in state["finished"][0]["history"]] == taught
    first, second = (Trainer(make_task(make_data(settings, 0, small()), settings, 0), settings, 0) for _ in range(2))
    for _ in range(4):
        first.run_epoch()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    while not second.done:
        second.run_epoch()
    assert [row["val_loss"] for row in second.history] == taught
    with pytest.raises(ValueError, match="one label a node"):
        train(replace(settings, batch_size=8), small())


# Jobs, tables, the page.


@pytest.mark.parametrize("same", [True, False])
def test_edges_of_one_kind_are_removed_with_their_reverse(same):
    job = {"settings": {"dataset": "synthetic"}, "data": {"make": "synthetic", "remove": [same, 0.4]}}
    g = graph_of(job, None).graph
    src, dst = g.edges()
    equal = g.ndata["label"][src] == g.ndata["label"][dst]
    assert [int((equal == kind).sum()) for kind in (same, not same)] == [3000, 5000]
    assert set(zip(src.tolist(), dst.tolist())) == set(zip(dst.tolist(), src.tolist()))


def test_the_dense_algorithm_gives_the_norm_and_its_gradient():
    g = small()
    index, z = edges_of(g).index, torch.rand(g.num_edges(), dtype=torch.float64, requires_grad=True)
    value = dense_norm(index.src, index.dst, g.num_nodes(), z, 4)
    gradient = torch.autograd.grad(value, z)[0]
    matrix = torch.zeros(g.num_nodes(), g.num_nodes(), dtype=torch.float64)
    u, values, vh = torch.linalg.svd(
        matrix.index_put((index.src.long(), index.dst.long()), z.detach(), accumulate=True)
    )
    assert float(value.detach()) == pytest.approx(float(values[:4].sum()), rel=1e-10)
    want = (u[index.src.long(), :4] * vh[:4, index.dst.long()].T).sum(1)
    torch.testing.assert_close(gradient, want, rtol=0, atol=1e-8)


def test_times_are_of_both_algorithms():
    job = next(job for job in STUDIES["rank"].jobs(QUICK) if job.get("alone"))
    assert min(execute(job).values()) > 0


def test_the_test_against_basic_is_paired(tmp_path):
    records = Records(tmp_path)
    jobs = {row: [Plan().job(seed, method=row) for seed in range(5)] for row in ("basic", "dropedge")}
    spread = [0.5, 0.6, 0.7, 0.8, 0.9]
    for number, (a, b) in enumerate(zip(*jobs.values())):
        records.add(a, {"test": spread[number], "val": 0.5})
        if number != 2:
            records.add(b, {"test": spread[number] + 0.01 + 0.001 * (number % 2), "val": 0.5})
    basic, other = (Runs(records, of) for of in jobs.values())
    assert paired_p(other, basic) < 0.001  # not paired, it would be nothing
    assert paired_p(basic, basic) is None
    assert str(basic) == "0.700 ± 0.158"
    assert (len(other), str(Runs(records, []))) == (4, "–")
    assert with_p(basic, basic) == "0.700 ± 0.158 (5)"
    assert with_p(other, basic).endswith("(4), p < 0.001")
    assert with_p(Runs(records, []), basic) == "–"


def test_holm_corrects_for_the_number_of_cells():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # 3 x, then 2 x, never falling
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_gates_that_tell_nothing_apart_are_no_reason():
    said = why_by("PTDNet", {"with GCN": 0.01, "with GAT": 0.5})
    assert "do not tell edges of one label from others (their means are less than 0.05 apart) with GCN (+0.010)" in said
    assert "tell edges of one label from others with GAT (+0.500)." in said
    assert why_by("PTDNet", {}) == ""


def test_layers_that_keep_nothing_are_named(tmp_path):
    found = {}
    for backbone, kept in (("gcn", [0, 0]), ("sage", [0.9, 0, 0, 0.001]), ("gat", [0.9, 0.8]), ("gin", [0, 0])):
        records = Records(tmp_path / backbone)
        rows = jobs_of(Plan(), "PTDNet", 2, dataset="cora", backbone=backbone)
        for job in rows:
            records.add(job, {"val": 0.5, "test": 0.5, "kept": kept, "gate_same": [0.9, 1], "gate_other": [0.2, 1]})
        found[backbone] = Runs(records, rows)
    said = why("PTDNet", {**found, "nowhere": Runs(Records(tmp_path), [])})
    assert "drops all edges of every layer, so that it is an MLP (gcn, gin); of layers 2 to 4 (sage).\n" in said
    assert "PTDNet tell edges of one label from others sage (+0.700), gat (+0.700).\n" in said


def test_where_labels_are_marked_the_test_over_all_has_a_column(tmp_path):
    records = Records(tmp_path)
    plan, given = Plan(), {"dataset": "ppi", "backbone": "sage"}
    assert "all labels" not in method_table(plan, records, given, 2, {}, {})
    for seed, job in enumerate(jobs_of(plan, "Basic", 2, **given)):
        records.add(job, {"val": 0.5, "test": 0.9, "test_all": 0.6 + 0.2 * seed})
    table = method_table(plan, records, given, 2, {}, {})
    assert "| test, all labels |" in table
    assert "| GraphSage: Basic | 0.900 | 0.000 | 2 | 0.500 | – | – | – | – | 0.700 |" in table
    assert "| GCN: Basic | – | – | 0 | – | – | – | – | – | – |" in table


def test_what_controls_have_of_a_gain_is_said(tmp_path):
    records = Records(tmp_path)
    given = {"dataset": "cora", "backbone": "gcn"}
    for row, test in (("Basic", 0.5), ("ptdnet-plus", 0.7), ("control: Basic + node MLP", 0.55)):
        for seed, job in enumerate(jobs_of(Plan(), row, 10, **given)):
            at = {"val": test, "test": test + (row == "ptdnet-plus") * seed / 1000}
            records.add(job, {**at, "kept": [1, 1], "gate_same": [1, 1], "gate_other": [1, 1]})
    line = "| cora GCN | ptdnet-plus | 0.705 ± 0.003 | 0.500 ± 0.000 | Basic + node MLP: 0.550 ± 0.000 | +0.154 |"
    assert f"{line} < 0.001 | 0.828 | no |" in classification.text(Plan(), records)


def test_labels_that_are_not_the_papers_are_not_held_against_it(tmp_path):
    records = Records(tmp_path)
    for row, test in (("Basic", 0.5), ("ptdnet-plus", 0.99)):
        for job in jobs_of(Plan(), row, 3, dataset="ppi", backbone="gcn"):
            records.add(job, {"val": test, "test": test, "kept": [1, 1]})
    said = classification.text(Plan(), records)
    assert "at or above the paper's value for PTDNet (PPI's labels are others): –" in said
    assert "On PPI it gains over Basic: **holds** in all 1" in said


def test_the_consistency_control_has_what_ptdnet_plus_has():
    for backbone in ("gcn", "gat"):
        given = {"dataset": "cora", "backbone": backbone}
        control = settings_of(jobs_of(Plan(), "control: Basic + consistency", 1, **given)[0])
        plus = settings_of(jobs_of(Plan(), "ptdnet-plus", 1, **given)[0])
        assert (control.method, control.lr) == ("basic", resolve(given, method="basic").lr)
        assert control.samples == plus.samples > 1
        assert control.sharpen == plus.sharpen > 0
        assert control.consistency_warm_up == plus.consistency_warm_up


def test_claims_say_where_they_do_not_hold():
    assert "not run yet" in claim("x", {})
    assert "**holds** in all 2" in claim("x", {"a": True, "b": True})
    assert "in 1 of 2; not in b" in claim("x", {"a": True, "b": False})
    assert "does **not** hold" in claim("x", {"a": False})


def test_a_row_above_another_is_tested(tmp_path):
    def runs(name, values):
        records, rows = Records(tmp_path / name), jobs_of(Plan(), "Basic", len(values), dataset="cora", backbone="gcn")
        for job, value in zip(rows, values):
            records.add(job, {"test": value, "val": value})
        return Runs(records, rows)

    low, high, noisy = runs("a", [0.5, 0.51, 0.52]), runs("b", [0.6, 0.61, 0.63]), runs("c", [0.1, 0.52, 0.95])
    none = Runs(Records(tmp_path), [])
    assert claim_above("x", {"a": (high, low), "b": (noisy, low)}) == "- x: **holds** in all 2; with p < 0.05 in 1.\n"
    assert claim_above("x", {"a": (low, high)}).endswith("in 0 of 1; not in a.\n")
    assert "not run yet" in claim_above("x", {"a": (low, none)})


def test_the_page_can_be_written_before_anything_ran_and_changes_with_the_records(tmp_path):
    records = Records(tmp_path / "results")
    write_page(tmp_path / "page.md", Plan(), records)
    empty = (tmp_path / "page.md").read_text()
    assert empty.count("Not run yet.") == len(STUDIES)
    assert not list((tmp_path / "page").iterdir())
    for job in classification.jobs(Plan()):
        if settings_of(job).dataset == "citeseer":
            records.add(job, {"test": 0.7123, "val": 0.7, "kept": [1.0], "gate_same": [1.0], "gate_other": [1.0]})
    assert "0.712" in page_text(Plan(), records)
    assert page_text(Plan(), records) != empty


@pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="there are no records in results/")
def test_the_page_says_what_the_records_say():
    want = page_text(Plan(), Records(ROOT / "results"))
    assert (ROOT / "docs" / "results.md").read_text() == want, "run `dgl-ptdnet reproduce --report`"


@pytest.mark.parametrize("several", [False, True])
def test_a_file_gets_every_method_that_fits_its_labels(several, tmp_path):
    g = synthetic(0).graph
    if several:
        g.ndata["label"] = torch.nn.functional.one_hot(g.ndata["label"]).float()
    path = str(tmp_path / "mine.bin")
    dgl.save_graphs(path, [g])
    mine = [job for job in classification.jobs(Plan(files=(path,))) if group_of(job) == "mine"]
    assert {settings_of(job).method for job in mine} == set(ALL_METHODS)
    assert {settings_of(job).backbone for job in mine} == {"gcn", "sage", "gat"}
    assert any(settings_of(job).control == "self-training" for job in mine) != several


def test_the_kind_of_noise_reaches_the_runs():
    jobs = noise.jobs(Plan(noise_kind="hubs"))
    assert {(settings_of(job).noise_kind, name_of(job)) for job in jobs} == {("hubs", "cora+20000")}
    assert {settings_of(job).noise_kind for job in noise.jobs(Plan())} == set(KINDS)
    assert not {key_of(job) for job in noise.jobs(Plan())}.isdisjoint(map(key_of, jobs))


def test_a_run_that_fails_is_named(tmp_path):
    job = {"settings": {"dataset": "nowhere.npz", "seeds": 1}}
    with pytest.raises(ValueError, match=r"a run failed: there is no nowhere.npz. It was .*nowhere.npz"):
        run([job], Records(tmp_path))


def test_a_run_that_fails_does_not_cost_those_beside_it(tmp_path):
    good = Plan(quick=True).job(0, dataset="cora", backbone="gcn", method="basic")
    with pytest.raises(ValueError, match=r"nowhere\.npz"):
        run([{"settings": {"dataset": "nowhere.npz", "seeds": 1}}, good], Records(tmp_path), workers=2)
    assert Records(tmp_path).get(good)["test"] >= 0


def test_records_outlive_a_change_of_the_programs_own_settings(tmp_path, monkeypatch):
    before = {"settings": {"dataset": "cora", "method": "basic"}}
    Records(tmp_path).add(before, {"test": 0.5})
    changed = {**jobs.own_values(), "lr": 0.5}
    monkeypatch.setattr(queue, "own_values", lambda: changed)
    records = Records(tmp_path)
    assert records.get(before) is None
    assert records.get({"settings": {**before["settings"], "lr": 0.01}})["test"] == 0.5
    records.add(before, {"test": 0.25})
    assert Records(tmp_path).get(before)["test"] == 0.25
    monkeypatch.undo()
    assert Records(tmp_path).get(before)["test"] == 0.5


def test_records_outlive_a_new_setting_whose_own_value_changes(tmp_path, monkeypatch):
    now = jobs.own_values()
    old, new = {"settings": {"dataset": "cora", "method": "basic"}}, {"settings": {"dataset": "cora", "method": "mlp"}}
    monkeypatch.setattr(queue, "own_values", lambda: {k: v for k, v in now.items() if k != "sharpen"})
    Records(tmp_path).add(old, {"test": 0.5})
    monkeypatch.undo()
    Records(tmp_path).add(new, {"test": 0.6})  # by a program that has the setting: the folder learns its value
    monkeypatch.setattr(queue, "own_values", lambda: {**now, "sharpen": 0.7})
    assert Records(tmp_path).get(old) is None
    assert Records(tmp_path).get({"settings": {**old["settings"], "sharpen": 0.0}})["test"] == 0.5


def test_what_is_complete_is_said_to_be(tmp_path):
    said = []
    for job in STUDIES["rank"].jobs(QUICK):
        Records(tmp_path).add(job, {"test": 0.5, "val": 0.5, "low_rank_ms": 1.0, "dense_ms": 200.0})
    reproduce(only=["rank"], quick=True, out=tmp_path, say=said.append)
    assert said == [f"all {len(STUDIES['rank'].jobs(QUICK))} runs have their records already"]


def test_a_data_set_that_no_run_is_on_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no run is on coar; there are .*cora"):
        reproduce(only=["classification"], datasets=["coar"], out=tmp_path)
    with pytest.raises(ValueError, match="there is no search for 'coar'"):
        reproduce(searching=True, datasets=["cora", "coar"], out=tmp_path)
    assert not list(tmp_path.glob("*.jsonl"))

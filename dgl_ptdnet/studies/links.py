"""Link prediction: AUC and AP on Cora, Citeseer and Pubmed."""

from __future__ import annotations

from .claims import claim, claim_above, why
from .jobs import Job, Plan
from .methods import CONTROLS, ONE_LABEL_ONLY, jobs_of
from .records import Records
from .runs import Runs, number, paired_p, probability
from .tables import markdown

TITLE = "Link prediction"
DATASETS = ("cora", "citeseer", "pubmed")
SHOWN = (
    *("Basic", "DropEdge", "NeuralSparse", "PTDNet-wl", "PTDNet", "ptdnet-plus"),
    *(row for row in CONTROLS if row not in ONE_LABEL_ONLY),
)
SEEDS = 3
PAPER = {
    "cora": {
        "Basic": (0.910, 0.920),
        "DropEdge": (0.881, 0.903),
        "NeuralSparse": (0.901, 0.917),
        "PTDNet": (0.916, 0.931),
    },
    "citeseer": {
        "Basic": (0.895, 0.899),
        "DropEdge": (0.862, 0.880),
        "NeuralSparse": (0.899, 0.910),
        "PTDNet": (0.918, 0.922),
    },
    "pubmed": {
        "Basic": (0.964, 0.965),
        "DropEdge": (0.859, 0.877),
        "NeuralSparse": (0.926, 0.953),
        "PTDNet": (0.963, 0.966),
    },
}


def _jobs(plan: Plan, dataset: str, row: str) -> list[Job]:
    return jobs_of(plan, row, SEEDS, dataset=dataset, backbone="gcn", task="link")


def jobs(plan: Plan) -> list[Job]:
    return [job for dataset in plan.few(DATASETS) for row in SHOWN for job in _jobs(plan, dataset, row)]


def text(plan: Plan, records: Records) -> str:
    lines: list[list[str]] = []
    over: dict[str, dict[str, tuple[Runs, Runs]]] = {row: {} for row in ("Basic", "DropEdge", "NeuralSparse")}
    faithful: dict[str, Runs] = {}
    plus: dict[str, Runs] = {}
    reached: dict[str, bool] = {}
    for dataset in plan.few(DATASETS):
        found = {row: [Runs(records, _jobs(plan, dataset, row), name) for name in ("test", "test_ap")] for row in SHOWN}
        basic = found["Basic"][0]
        for row, (auc, precision) in found.items():
            paper = PAPER[dataset].get(row, (None, None))
            p = paired_p(auc, basic) if row != "Basic" and len(auc) and len(basic) else None
            lines.append(
                [f"{dataset}: {row}", str(auc), str(precision), str(len(auc)), probability(p), *map(number, paper)]
            )
        faithful[f"on {dataset}"], plus[f"on {dataset}"] = found["PTDNet"][0], found["ptdnet-plus"][0]
        for row in over:
            over[row][dataset] = found["PTDNet"][0], found[row][0]
        for name, runs, paper_is in zip(("AUC", "AP"), found["PTDNet"], PAPER[dataset]["PTDNet"]):
            if len(runs):
                reached[f"{dataset} {name}"] = round(runs.mean, 3) >= paper_is
    head = ["", "AUC", "AP", "seeds", "p against Basic (AUC)", "paper's AUC", "paper's AP"]
    said = "".join(claim_above(f"PTDNet's AUC is above that of {row}", of) for row, of in over.items())
    said += claim("PTDNet reaches the paper's values", reached)
    return said + "\n" + markdown(head, lines) + why("PTDNet", faithful) + why("ptdnet-plus", plus)

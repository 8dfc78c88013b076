"""Records as tables: means, spreads, paired tests, and the words for them."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

from .jobs import Plan
from .queue import Records
from .rows import BACKBONES, jobs_of, one_label, rows_of

NAMES = {"gcn": "GCN", "sage": "GraphSage", "gat": "GAT"}
NONE = "–"
TELLS = 0.05  # by so much mean gates differ that tell edges apart
SHUT = 0.01  # a layer that keeps less than this share of its edges hears nothing


class Runs:
    """The records of one row: the same settings with several seeds.

    Parameters
    ----------
    records : Records
        What is known.
    jobs : list[dict]
        One for each seed; some may have no record yet.
    metric : str
        The figure that counts.
    """

    def __init__(self, records: Records, jobs: list[dict[str, Any]], metric: str = "test") -> None:
        found = [records.get(job) for job in jobs]
        self.records = [record for record in found if record is not None]
        self.by_seed = {seed: record[metric] for seed, record in enumerate(found) if record is not None}
        self.values = list(self.by_seed.values())

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def val(self) -> float:
        """The mean over seeds of the validation metric."""
        return fmean(record["val"] for record in self.records)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds."""
        return stdev(self.values) if len(self) > 1 else 0.0

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.spread:.3f}" if self.values else NONE


def paired_p(one: Runs, other: Runs) -> float | None:
    """The p of a paired t-test over the seeds that both have; None where it has no answer."""
    from scipy.stats import ttest_rel  # a second to import

    seeds = sorted(one.by_seed.keys() & other.by_seed.keys())
    differences = [one.by_seed[seed] - other.by_seed[seed] for seed in seeds]
    if len(set(differences)) < 2:  # no spread, no test
        return None
    return float(ttest_rel(*([runs.by_seed[seed] for seed in seeds] for runs in (one, other))).pvalue)


def holm(ps: list[float]) -> list[float]:
    """Holm's correction of p values for their number."""
    corrected, least = [0.0] * len(ps), 0.0
    for place, number_of in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        least = max(least, min(1.0, (len(ps) - place) * ps[number_of]))
        corrected[number_of] = least
    return corrected


def with_p(runs: Runs, basic: Runs) -> str:
    """A cell: mean, spread, number of seeds, and p against Basic."""
    if not len(runs):
        return NONE
    p = paired_p(runs, basic)
    return f"{runs} ({len(runs)})" + ("" if p is None else f", p {probability(p)}")


def number(value: float | None, digits: int = 3) -> str:
    """A figure, or a dash where there is none."""
    return NONE if value is None else f"{value:.{digits}f}"


def probability(p: float | None) -> str:
    return NONE if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """A table. The first column is text, the others are figures."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


Figures = dict[str, dict[str, float]]  # by backbone and row


def method_table(
    plan: Plan, records: Records, given: dict[str, Any], seeds: int, paper: Figures, authors: Figures
) -> str:
    """Every row for every backbone on a data set, beside the paper's figures and those of the authors' code. Where
    labels are marked as exact or not, the test over all of them has a column."""
    rows, everywhere = [], []
    for backbone in BACKBONES:
        basic = runs_of(plan, records, "Basic", seeds, {**given, "backbone": backbone})
        for row in rows_of(given["dataset"]):
            runs = runs_of(plan, records, row, seeds, {**given, "backbone": backbone})
            line = [f"{NAMES[backbone]}: {row}", NONE, NONE, str(len(runs)), NONE, NONE, NONE]
            if len(runs):
                line = [line[0], number(runs.mean), number(runs.spread), line[3], number(runs.val), NONE, NONE]
            if len(runs) and len(basic) and row != "Basic":
                line[5:] = [f"{runs.mean - basic.mean:+.3f}", probability(paired_p(runs, basic))]
            line += [number(figures.get(backbone, {}).get(row)) for figures in (paper, authors)]
            rows.append(line)
            found = [record["test_all"] for record in runs.records if "test_all" in record]
            everywhere.append(number(fmean(found)) if found else NONE)
    head = ["", "test", "spread", "seeds", "validation", "to Basic", "p", "paper", "authors' code"]
    if set(everywhere) != {NONE}:
        head, rows = [*head, "test, all labels"], [[*line, of] for line, of in zip(rows, everywhere)]
    return markdown(head, rows)


def gate_table(plan: Plan, records: Records, given: dict[str, Any], seeds: int) -> str:
    """What gates do: the edges that each layer keeps, and the means of the first layer's gates over edges between the
    same and between different labels. Where these are equal, gates do not tell edges apart, and what they gain or lose
    is not denoising."""
    names = ("gate_same", "gate_other") if one_label(given["dataset"]) else ()
    rows: list[list[str]] = []
    found: dict[str, dict[str, Runs]] = {}
    for backbone in BACKBONES:
        for row in ("PTDNet-wl", "PTDNet", "ptdnet-plus"):
            runs = runs_of(plan, records, row, seeds, {**given, "backbone": backbone})
            line = [NONE] * (1 + len(names))
            if len(runs):
                kept = " / ".join(number(fmean(of)) for of in zip(*(record["kept"] for record in runs.records)))
                line = [kept, *(number(fmean(record[name][0] for record in runs.records)) for name in names)]
            rows.append([f"{NAMES[backbone]}: {row}", *line])
            found.setdefault(row, {})[f"with {NAMES[backbone]}"] = runs
    head = ["at the best epoch", "edges kept, by layer", "mean gate, first layer: same label", "different label"]
    said = "".join(why(row, found[row]) for row in ("PTDNet", "ptdnet-plus"))
    return "\n" + markdown(head[: 2 + len(names)], rows) + said


def why(row: str, where: dict[str, Runs]) -> str:
    """What the means of the first layer's gates say of a row's gains and losses, by the place that they are from."""
    shut: dict[str, list[str]] = {}  # places by what is shut there
    sees: dict[str, Runs] = {}
    for at, runs in where.items():
        kept = [fmean(of) for of in zip(*(record["kept"] for record in runs.records))]
        none = [layer for layer, share in enumerate(kept, 1) if share < SHUT]
        if none:
            every = len(none) == len(kept)
            shut.setdefault("every layer, so that it is an MLP" if every else _layers(none), []).append(at)
        if len(runs) and len(none) < len(kept) and "gate_same" in runs.records[0]:
            sees[at] = runs
    said = "; of ".join(f"{layers} ({', '.join(places)})" for layers, places in shut.items())
    said = f"\nWhy: {row} drops all edges of {said}.\n" if said else ""
    return said + why_by(row, {at: gap_of(runs) for at, runs in sees.items()})


def _layers(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"layer {numbers[0]}"
    inside = numbers[-1] - numbers[0] == len(numbers) - 1 > 1
    return f"layers {numbers[0]} to {numbers[-1]}" if inside else f"layers {', '.join(map(str, numbers))}"


def gap_of(runs: Runs) -> float:
    """By how much gates of edges within a label are above others, in the first layer."""
    return fmean(record["gate_same"][0] - record["gate_other"][0] for record in runs.records)


def why_by(row: str, gaps: dict[str, float]) -> str:
    """As :func:`why`, from the differences themselves."""
    said = ""
    if blind := [f"{at} ({gap:+.3f})" for at, gap in gaps.items() if gap < TELLS]:
        said += (
            f"\nWhy: gates of {row} do not tell edges of one label from others (their means are less than {TELLS} "
            f"apart) {', '.join(blind)}: what it gains or loses there is not denoising.\n"
        )
    if sees := [f"{at} ({gap:+.3f})" for at, gap in gaps.items() if gap >= TELLS]:
        said += f"\nWhy: gates of {row} tell edges of one label from others {', '.join(sees)}.\n"
    return said


def runs_of(plan: Plan, records: Records, row: str, seeds: int, given: dict[str, Any]) -> Runs:
    """The records of a row."""
    return Runs(records, jobs_of(plan, row, seeds, **given))


def better(one: Runs, other: Runs) -> Runs:
    """Of two the one that is better in validation; of one without records the other."""
    return max((runs for runs in (one, other) if len(runs)), key=lambda runs: runs.val, default=one)


def claim(words: str, cells: dict[str, bool]) -> str:
    """A claim, and whether it holds in the cells that there are."""
    if not cells:
        return f"- {words}: {NONE}, not run yet.\n"
    failing = [name for name, holds in cells.items() if not holds]
    if not failing:
        return f"- {words}: **holds** in all {len(cells)}.\n"
    verdict = "does **not** hold" if len(failing) == len(cells) else "holds in part"
    return f"- {words}: {verdict}, in {len(cells) - len(failing)} of {len(cells)}; not in {', '.join(failing)}.\n"


def claim_above(words: str, cells: dict[str, tuple[Runs, Runs]]) -> str:
    """The claim that one row is above another in the cells that have both, and in how many of these surely."""
    there = {name: pair for name, pair in cells.items() if all(map(len, pair))}
    above = {name: one.mean > other.mean for name, (one, other) in there.items()}
    ps = [paired_p(*pair) for name, pair in there.items() if above[name]]
    surely = sum(p is not None and p < 0.05 for p in ps)
    said = claim(words, above)
    return f"{said[:-2]}; with p < 0.05 in {surely}.\n" if ps else said

"""The runs of one row of a table, with several seeds, and tests of one row against another."""

from __future__ import annotations

from statistics import fmean, stdev

from .jobs import Job
from .records import Records

NONE = "–"


class Runs:
    """The figures of one row: runs with equal settings and several seeds.

    Parameters
    ----------
    records : Records
        What has finished.
    jobs : list[Job]
        One for each seed; some may not have finished.
    metric : str
        The name of the figure to compare. Default: ``"test"``.
    """

    def __init__(self, records: Records, jobs: list[Job], metric: str = "test") -> None:
        found = [records.get(job) for job in jobs]
        self.figures = [figures for figures in found if figures is not None]
        self.by_seed = {seed: getattr(figures, metric) for seed, figures in enumerate(found) if figures is not None}
        self.values = list(self.by_seed.values())

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def val(self) -> float:
        """The mean over seeds of the validation metric."""
        return fmean(figures.val for figures in self.figures)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds."""
        return stdev(self.values) if len(self) > 1 else 0.0

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.spread:.3f}" if self.values else NONE


def paired_p(one: Runs, other: Runs) -> float | None:
    """The p value of a paired t-test over the seeds that both have; None if all differences are equal."""
    from scipy.stats import ttest_rel  # a second to import

    seeds = sorted(one.by_seed.keys() & other.by_seed.keys())
    differences = [one.by_seed[seed] - other.by_seed[seed] for seed in seeds]
    if len(set(differences)) < 2:
        return None
    return float(ttest_rel(*([runs.by_seed[seed] for seed in seeds] for runs in (one, other))).pvalue)


def holm(ps: list[float]) -> list[float]:
    """Holm's correction of p values for the number of tests."""
    corrected, minimum = [0.0] * len(ps), 0.0
    for place, number_of in enumerate(sorted(range(len(ps)), key=ps.__getitem__)):
        minimum = max(minimum, min(1.0, (len(ps) - place) * ps[number_of]))
        corrected[number_of] = minimum
    return corrected


def with_p(runs: Runs, basic: Runs) -> str:
    """A cell of a table: mean, spread, number of seeds, and p against Basic."""
    if not len(runs):
        return NONE
    p = paired_p(runs, basic)
    return f"{runs} ({len(runs)})" + ("" if p is None else f", p {probability(p)}")


def number(value: float | None, digits: int = 3) -> str:
    """A number, or a dash for None."""
    return NONE if value is None else f"{value:.{digits}f}"


def probability(p: float | None) -> str:
    return NONE if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"

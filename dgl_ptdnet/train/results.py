"""What a run finds: small records that go to JSON and back in one way."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from .settings import Settings

Self = TypeVar("Self", bound="JsonRecord")
Numbers = tuple[float, ...]


class JsonRecord:
    """A frozen dataclass that JSON can hold: fields that are None are left out, tuples are lists.

    Examples
    --------
    >>> from dgl_ptdnet.train.results import Epoch
    >>> row = Epoch(epoch=0, loss=1.5, train=0.5, val=0.4, val_loss=1.6, seconds=0.1)
    >>> row.to_json()
    {'epoch': 0, 'loss': 1.5, 'train': 0.5, 'val': 0.4, 'val_loss': 1.6, 'seconds': 0.1}
    >>> Epoch.from_json(row.to_json()) == row
    True
    """

    def to_json(self) -> dict[str, Any]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: _plain(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_json(cls: type[Self], found: Any) -> Self:
        if not isinstance(found, Mapping):
            raise ValueError(f"a {cls.__name__} must have names and values; got {type(found).__name__}")
        if unknown := set(found) - {field.name for field in fields(cls)}:  # type: ignore[arg-type]
            raise ValueError(f"a {cls.__name__} has no {', '.join(sorted(unknown))}")
        try:
            return cls(**{name: _frozen(value) for name, value in found.items()})
        except TypeError as error:  # a name without a default is missing
            raise ValueError(f"a {cls.__name__} is not complete: {error}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, JsonRecord):
        return value.to_json()
    if isinstance(value, Mapping):
        return {name: _plain(x) for name, x in value.items()}
    return [_plain(x) for x in value] if isinstance(value, (list, tuple)) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(x) for x in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class Epoch(JsonRecord):
    """One epoch: a line of ``log.jsonl``.

    ``edges_kept``, ``gate_same`` and ``gate_other`` are for methods that learn gates, a number for each layer: the
    share of edges with a gate above 0, and the mean gate of edges between equal and between different labels.
    """

    epoch: int
    loss: float
    train: float
    val: float
    val_loss: float
    seconds: float
    edges_kept: Numbers | None = None
    gate_same: Numbers | None = None
    gate_other: Numbers | None = None
    val_exact: float | None = None
    val_all: float | None = None
    val_ap: float | None = None


@dataclass(frozen=True)
class SeedResult(JsonRecord):
    """The result of one seed, at the epoch with the best validation.

    ``epochs``: how many were run; ``epoch_seconds``: their median time; the others as in :class:`Epoch`, of the test.
    """

    seed: int
    metric: str
    val: float
    test: float
    val_loss: float
    best_epoch: int
    epochs: int
    epoch_seconds: float
    edges_kept: Numbers | None = None
    gate_same: Numbers | None = None
    gate_other: Numbers | None = None
    val_exact: float | None = None
    val_all: float | None = None
    val_ap: float | None = None
    test_exact: float | None = None
    test_all: float | None = None
    test_ap: float | None = None


@dataclass(frozen=True)
class BestState:
    """The network of the epoch with the best validation: its weights and, with agreement, the logits of its edges."""

    epoch: int
    val: float
    val_loss: float
    model: dict[str, Tensor]
    logits: list[Tensor] | None = None

    def to_state(self) -> dict[str, Any]:
        """For ``torch.save``."""
        state = {"epoch": self.epoch, "val": self.val, "val_loss": self.val_loss, "model": self.model}
        return state if self.logits is None else {**state, "logits": self.logits}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> BestState:
        return cls(state["epoch"], state["val"], state["val_loss"], state["model"], state.get("logits"))


@dataclass(frozen=True)
class SeedRun:
    """All that is known of a seed: its result, a row for every epoch, the best network, and how many nodes have 0, 1,
    2, ... edges, in the whole graph and in what each layer keeps."""

    result: SeedResult
    history: list[Epoch]
    degrees: dict[str, list[int]]
    best: BestState


@dataclass(frozen=True)
class Metrics(JsonRecord):
    """What ``metrics.json`` holds.

    ``val`` and ``test`` have a number for each seed, as every field below ``epoch_seconds``; ``mean`` and ``std`` are
    of the test (the standard deviation of a sample; 0 for one seed); ``epoch_seconds`` is the mean over seeds.
    """

    dataset: str
    backbone: str
    method: str
    noise_edges: int
    task: str
    metric: str
    val: Numbers
    test: Numbers
    mean: float
    std: float
    epoch_seconds: float
    seeds: tuple[int, ...]
    val_loss: Numbers
    best_epoch: tuple[int, ...]
    epochs: tuple[int, ...]
    edges_kept: tuple[Numbers, ...] | None = None
    gate_same: tuple[Numbers, ...] | None = None
    gate_other: tuple[Numbers, ...] | None = None
    val_exact: Numbers | None = None
    val_all: Numbers | None = None
    val_ap: Numbers | None = None
    test_exact: Numbers | None = None
    test_all: Numbers | None = None
    test_ap: Numbers | None = None

    @classmethod
    def of(cls, settings: Settings, results: Sequence[SeedResult]) -> Metrics:
        """The metrics of a run from the results of its seeds."""
        columns: dict[str, Any] = {
            field.name: tuple(getattr(result, field.name) for result in results)
            for field in fields(SeedResult)
            if getattr(results[0], field.name) is not None
        }
        test, seeds, seconds = columns["test"], columns.pop("seed"), columns.pop("epoch_seconds")
        return cls(
            **{name: getattr(settings, name) for name in ("dataset", "backbone", "method", "noise_edges", "task")},
            **{**columns, "metric": results[0].metric},
            seeds=seeds,
            mean=statistics.fmean(test),
            std=statistics.stdev(test) if len(test) > 1 else 0.0,
            epoch_seconds=statistics.fmean(seconds),
        )

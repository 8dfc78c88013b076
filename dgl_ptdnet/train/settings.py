"""Every setting of a run: its meaning, its default and how it is written to a file. Imports neither torch nor DGL."""

from __future__ import annotations

import difflib
import itertools
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

try:
    import tomllib
except ImportError:  # Python < 3.11
    import tomli as tomllib  # type: ignore[no-redef]

from ..data.names import NOISE_KINDS, DataName
from .atomic import write_atomic

BACKBONES = ("gcn", "sage", "gat", "gin")
METHODS = ("basic", "mlp", "dropedge", "neuralsparse", "ptdnet-wl", "ptdnet", "ptdnet-plus")
LEARNED = ("ptdnet-wl", "ptdnet", "ptdnet-plus")
CONTROLS = ("none", "node-mlp", "shut", "shut-node-mlp", "self-training")
TASKS = ("node", "link")
GROUPS = ("data", "network", "training", "gates", "denoiser")
DEFAULTS = Path(__file__).parents[1] / "defaults"


def _setting(group: str, default: Any, help: str, *, choices: tuple[str, ...] = (), minimum: float = -math.inf) -> Any:
    return field(default=default, metadata={"group": group, "help": help, "choices": choices, "minimum": minimum})


@dataclass(frozen=True)
class Settings:
    """Settings of a run. Make them with :func:`resolve`, which adds the defaults of each data set and method.

    ``dgl-ptdnet train --help`` lists them all.

    Examples
    --------
    >>> from dgl_ptdnet.train import Settings
    >>> Settings(dataset="synthetic", method="ptdnet", epochs=50).lr
    0.01
    """

    dataset: str = _setting("data", "cora", "name or path of a data set; see `dgl-ptdnet datasets`")
    backbone: str = _setting("network", "gcn", "graph network", choices=BACKBONES)
    method: str = _setting("network", "ptdnet-plus", "how edges are dropped", choices=METHODS)
    task: str = _setting("data", "node", "node classification or link prediction", choices=TASKS)
    noise_edges: int = _setting("data", 0, "number of random node pairs to connect as noise before training", minimum=0)
    noise_kind: str = _setting("data", "uniform", "how these pairs are drawn", choices=NOISE_KINDS)
    seeds: int = _setting("training", 10, "number of runs, each with its own seed", minimum=1)
    first_seed: int = _setting("training", 0, "the first seed; the others follow it", minimum=0)

    layers: int = _setting("network", 2, "number of layers", minimum=1)
    hidden: int = _setting("network", 32, "size of hidden layers; for gat: of each head", minimum=1)
    heads: int = _setting("network", 8, "gat: attention heads of hidden layers", minimum=1)
    out_heads: int = _setting("network", 1, "gat: attention heads of the last layer; they are averaged", minimum=1)
    residual: bool = _setting("network", False, "add a linear map of each layer's input to its output")
    embedding: int = _setting("network", 16, "link prediction: size of a node's embedding", minimum=1)
    dropout: float = _setting("network", 0.5, "dropout of each layer's input and of attention weights", minimum=0)

    epochs: int = _setting("training", 200, "maximum number of epochs", minimum=1)
    lr: float = _setting("training", 0.01, "learning rate of the network", minimum=0)
    weight_decay: float = _setting("training", 5e-4, "weight decay of the network; gates have none", minimum=0)
    patience: int = _setting("training", 0, "stop after this many epochs without improvement; 0: never", minimum=0)
    min_epochs: int = _setting("training", 100, "patience starts after this many epochs", minimum=0)
    exact_labels: bool = _setting("data", True, "use only labels that are marked as exact, if any are marked (PPI)")
    amp: bool = _setting("training", False, "mixed precision with bfloat16")
    batch_size: int = _setting("training", 0, "nodes in a mini-batch; 0: each step uses a whole graph", minimum=0)
    fanouts: tuple[int, ...] = _setting(
        "training", (), "neighbours sampled for a node, a number for each layer; -1: all", minimum=-1
    )
    threads: int = _setting(
        "training", 0, "number of threads; 0: one if the graph has fewer than 200,000 edges, else all", minimum=0
    )
    device: str = _setting("training", "cpu", "device for training: cpu, cuda, cuda:1")

    control: str = _setting(
        "network",
        "none",
        "basic: a control experiment without gates. node-mlp: add an MLP on nodes, of a gate's size, to each layer; "
        "shut: drop all edges of the last layer; shut-node-mlp: both; self-training: learn from own predictions",
        choices=CONTROLS,
    )
    dropedge_rate: float = _setting("gates", 0.2, "dropedge: share of edges to drop", minimum=0)
    neuralsparse_k: int = _setting("gates", 10, "neuralsparse: number of edges to keep for each node", minimum=1)

    gate_hidden: int = _setting("gates", 16, "hidden units of a gate's MLP; 0: no hidden layer", minimum=0)
    gate_mlp: bool = _setting("gates", False, "ptdnet-plus: add the MLP's logit to that of the prior")
    gate_bias: float = _setting("gates", 2.0, "initial bias of the gates' logits; positive: gates start open")
    gate_symmetric: bool = _setting("gates", False, "give an edge and its reverse equal gates")
    gate_normalize: bool = _setting("gates", False, "normalise each node's features before the gate")
    gate_lr: float = _setting("gates", 0.01, "learning rate of the gates", minimum=0)
    gate_warm_up: int = _setting("gates", 0, "epochs over which this rate rises from 0", minimum=0)
    tau: float = _setting("gates", 2.0, "initial temperature of the gates", minimum=1e-6)
    tau_decay: float = _setting("gates", 0.99, "factor applied to tau after every epoch", minimum=1e-6)
    tau_minimum: float = _setting("gates", 0.05, "minimum of tau", minimum=1e-6)
    l0_weight: float = _setting(
        "gates", 0.0, "weight of the L0 term: the expected share of open gates, summed over layers", minimum=0
    )
    rank_weight: float = _setting("gates", 0.0, "weight of the low-rank term, summed over layers", minimum=0)
    rank_k: int = _setting("gates", 1, "number of singular values in the low-rank term", minimum=1)
    gate_samples: int = _setting(
        "gates", 1, "gate samples in each training step; their predictions are averaged", minimum=1
    )
    consistency_weight: float = _setting(
        "gates", 0.01, "weight of the consistency loss: how far predictions of several gate samples differ", minimum=0
    )
    consistency_warm_up: int = _setting("gates", 0, "epochs over which this weight rises from 0", minimum=0)
    consistency_temperature: float = _setting(
        "gates",
        0.0,
        "above 0: compare probabilities with their mean, sharpened by this temperature; 0: compare outputs",
        minimum=0,
    )
    prior: bool = _setting("denoiser", True, "ptdnet-plus: use the density prior")
    agreement: bool = _setting("denoiser", True, "ptdnet-plus: use the agreement of both ends' predicted labels")
    agreement_lr: float = _setting("denoiser", 0.01, "learning rate of agreement's encoder", minimum=0)
    agreement_weight_decay: float = _setting("denoiser", 1e-4, "weight decay of agreement's encoder", minimum=0)
    agreement_homophily: float = _setting(
        "denoiser", 0.8, "assumed share of real edges that connect nodes of one class", minimum=1e-6
    )
    agreement_warm_up: int = _setting(
        "denoiser", 60, "epochs before agreement, or control = self-training, uses the network's predictions", minimum=0
    )
    agreement_ramp: int = _setting(
        "denoiser", 30, "epochs over which gates then change from the prior to agreement", minimum=0
    )

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = _checked(setting, getattr(self, setting.name))
            object.__setattr__(self, setting.name, value)
        if self.fanouts and len(self.fanouts) != self.layers:
            raise ValueError(f"fanouts must have a number for each of the {self.layers} layers; got {self.fanouts}")
        if self.control != "none" and self.method != "basic":
            raise ValueError(f"control is for the method basic; got {self.control} with {self.method}")
        if self.agreement_homophily >= 1:
            raise ValueError(f"agreement_homophily must be below 1; got {self.agreement_homophily}")
        if self.dropout > 0.999 or self.dropedge_rate > 0.999:
            raise ValueError(
                f"dropout and dropedge_rate must be at most 0.999; got {self.dropout} and {self.dropedge_rate}"
            )
        if 0 < self.consistency_temperature < 0.05:
            raise ValueError(f"consistency_temperature must be 0 or at least 0.05; got {self.consistency_temperature}")
        if 0 in self.fanouts:
            raise ValueError(f"fanouts must be -1 (all neighbours) or at least 1; got {list(self.fanouts)}")
        if self.threads > 1024:
            raise ValueError(f"threads must be at most 1024; got {self.threads}")
        if self.first_seed + self.seeds > 2**31:
            raise ValueError(f"seeds must end below 2^31; got first_seed {self.first_seed} and {self.seeds} seeds")

    def to_toml(self) -> str:
        """The text of a file for ``--config`` that gives these settings."""
        return to_toml(asdict(self))


_FIELDS = {setting.name: setting for setting in fields(Settings)}


def _checked(setting: Any, value: Any) -> Any:
    kind, name = setting.type, setting.name
    if kind == "tuple[int, ...]" and isinstance(value, (list, tuple)):
        value, items = tuple(value), value
    else:
        value = float(value) if kind == "float" and type(value) is int else value
        items = [value]
    wanted = {"str": str, "bool": bool, "float": float}.get(kind, int)
    if any(type(item) is not wanted for item in items) or isinstance(value, tuple) != kind.startswith("tuple"):
        raise ValueError(f"{name} must be {kind.replace('tuple[int, ...]', 'a list of int')}; got {value!r}")
    if setting.metadata["choices"] and value not in setting.metadata["choices"]:
        near = difflib.get_close_matches(str(value), setting.metadata["choices"], 1)
        hint = f". Did you mean {near[0]}?" if near else ""
        raise ValueError(f"{name} must be one of {', '.join(setting.metadata['choices'])}; got {value!r}{hint}")
    if wanted is not str and not all(setting.metadata["minimum"] <= item < math.inf for item in items):
        raise ValueError(f"{name} must be a number of at least {setting.metadata['minimum']:g}; got {value!r}")
    return value


def _check_names(names: Any, where: str) -> None:
    for name in names:
        if name not in _FIELDS:
            near = difflib.get_close_matches(name, _FIELDS, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(_FIELDS)}"
            raise ValueError(f"{where}: there is no setting {name!r}; {hint}")


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path} cannot be read as TOML: {error}") from error


def read_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings in a TOML file. Unknown names are an error."""
    values = read_toml(path)
    _check_names(values, str(path))
    return values


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}" for c in escaped) + '"'
    return repr(value)


def to_toml(values: Mapping[str, Any]) -> str:
    """The text of a TOML file without tables."""
    return "".join(f"{name} = {_toml(value)}\n" for name, value in values.items())


def merged(tables: Mapping[str, Any], key: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The values of a file for a task, backbone and method: those at its top, then those of the tables ``[BACKBONE]``,
    ``[METHOD]``, ``[TASK]`` and ``[METHOD.BACKBONE]``. Later ones take precedence."""
    of_method = tables.get(key["method"], {})
    known = {*TASKS, *BACKBONES, *METHODS}
    values = {name: value for name, value in tables.items() if name not in known}
    for table in (tables.get(key["backbone"], {}), of_method, tables.get(key["task"], {})):
        values.update({name: value for name, value in table.items() if name not in BACKBONES})
    values.update(of_method.get(key["backbone"], {}))
    _check_names(values, where)
    return values


def defaults(given: Mapping[str, Any], folder: Path = DEFAULTS) -> dict[str, Any]:
    """The defaults in the files of a folder for the data set, task, backbone and method of ``given``.

    The files are ``common.toml`` and one named like the data: ``cora.toml``, ``cora+20000.toml`` or ``cora-link.toml``
    (see :class:`DataName`). Values of ``cora+20000.toml`` take precedence over those of ``cora.toml``, and these over
    ``common.toml``; for the tables of a file see :func:`merged`. If no file has exactly this amount of noise,
    the one with the nearest amount is used.
    """
    key = {name: given.get(name, setting.default) for name, setting in _FIELDS.items()}
    files = {DataName.parse(path.stem): path for path in folder.glob("*.toml") if path.stem != "common"}
    clean = DataName(str(key["dataset"]).lower(), 0, key["task"])
    levels = [0, *(name.noise_edges for name in files if name == clean._replace(noise_edges=name.noise_edges))]
    nearest = min(levels, key=lambda level: (abs(level - key["noise_edges"]), -level))
    chosen = [
        folder / "common.toml",
        *(files[name] for name in dict.fromkeys((clean, clean._replace(noise_edges=nearest))) if name in files),
    ]
    values: dict[str, Any] = {}
    for path in chosen:
        if path.exists():
            values.update(merged(read_toml(path), key, str(path)))
    return values


def resolve(given: Mapping[str, Any] | None = None, /, **more: Any) -> Settings:
    """Makes settings from the given ones and, for all others, the defaults of their data set, method and backbone.

    Parameters
    ----------
    given : mapping, optional
        Names and values, as from :func:`read_settings`.
    **more
        More names and values, which take precedence.

    Returns
    -------
    Settings
        All settings.

    Examples
    --------
    >>> from dgl_ptdnet.train import resolve
    >>> settings = resolve(dataset="mine", backbone="gat", method="basic")
    >>> settings.heads, settings.dropout
    (8, 0.6)
    """
    given = {**(given or {}), **more}
    _check_names(given, "settings")
    return Settings(**{**defaults(given), **given})


def update_defaults(path: Path, method: str, backbone: str, values: Mapping[str, Any]) -> None:
    """Writes values into the table ``[METHOD.BACKBONE]`` of a file of defaults. Comments at its top are kept, others
    are lost."""
    _check_names(values, str(path))
    tables = read_toml(path) if path.exists() else {}
    tables.setdefault(method, {})[backbone] = dict(values)
    before = path.read_text(encoding="utf-8").splitlines(True) if path.exists() else []
    top = list(itertools.takewhile(lambda line: line.startswith("#"), before))
    lines: list[str] = []

    def write(prefix: tuple[str, ...], table: Mapping[str, Any]) -> None:
        plain = {k: v for k, v in table.items() if not isinstance(v, dict)}
        if prefix and plain:
            lines.append(f"\n[{'.'.join(prefix)}]\n")
        lines.extend(f"{k} = {_toml(v)}\n" for k, v in plain.items())
        for k, v in table.items():
            if isinstance(v, dict):
                write((*prefix, k), v)

    write((), tables)
    write_atomic(path, "".join([*top, *lines]).lstrip("\n"))

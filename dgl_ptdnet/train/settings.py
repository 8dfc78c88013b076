"""Every setting of a run: what there is, where its value comes from, and how it is written down."""

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

from ..data.noise import KINDS
from .write import write_whole

BACKBONES = ("gcn", "sage", "gat", "gin")
METHODS = ("basic", "mlp", "dropedge", "neuralsparse", "ptdnet-wl", "ptdnet", "ptdnet-plus")
LEARNED = ("ptdnet-wl", "ptdnet", "ptdnet-plus")
CONTROLS = ("none", "node-mlp", "shut", "shut-node-mlp", "self-training")
TASKS = ("node", "link")
DEFAULTS = Path(__file__).parents[1] / "defaults"


def _setting(default: Any, help: str, *, choices: tuple[str, ...] = (), least: float = -math.inf) -> Any:
    return field(default=default, metadata={"help": help, "choices": choices, "least": least})


@dataclass(frozen=True)
class Settings:
    """Settings of a run. Make them with :func:`resolve`, which knows good values for each data set and method.

    Examples
    --------
    >>> from dgl_ptdnet.train import Settings
    >>> Settings(dataset="synthetic", method="ptdnet", epochs=50).lr
    0.01
    """

    dataset: str = _setting("cora", "name or path of a data set; see `dgl-ptdnet datasets`")
    backbone: str = _setting("gcn", "the graph network", choices=BACKBONES)
    method: str = _setting("ptdnet-plus", "what is done to its edges", choices=METHODS)
    task: str = _setting("node", "node classification, or link prediction", choices=TASKS)
    noise_edges: int = _setting(0, "pairs of unlinked nodes to link first", least=0)
    noise_kind: str = _setting("uniform", "which pairs", choices=KINDS)
    seeds: int = _setting(10, "how many runs, each with a seed of its own", least=1)
    first_seed: int = _setting(0, "the first of the seeds", least=0)

    layers: int = _setting(2, "number of layers", least=1)
    hidden: int = _setting(32, "size of hidden layers; for gat, of each head", least=1)
    heads: int = _setting(8, "attention heads of gat's hidden layers", least=1)
    out_heads: int = _setting(1, "attention heads of gat's last layer, which are averaged", least=1)
    residual: bool = _setting(False, "add a linear map of each layer's input to its output")
    embedding: int = _setting(16, "link prediction: size of the nodes' embeddings", least=1)
    dropout: float = _setting(0.5, "dropout of every layer's input, and of attention", least=0)

    epochs: int = _setting(200, "the most epochs", least=1)
    lr: float = _setting(0.01, "learning rate", least=0)
    weight_decay: float = _setting(5e-4, "weight decay, not of gates", least=0)
    patience: int = _setting(0, "stop after so many epochs without a better validation; 0: never", least=0)
    min_epochs: int = _setting(100, "patience is not counted before this epoch", least=0)
    exact_labels: bool = _setting(True, "train on rows whose label is marked exact only, where there are marks (PPI)")
    amp: bool = _setting(False, "bfloat16 where it is safe")
    batch_size: int = _setting(0, "nodes of a mini-batch; 0: a whole graph a step", least=0)
    fanouts: tuple[int, ...] = _setting((), "neighbours sampled for a node, from the first layer on; -1: all", least=-1)
    threads: int = _setting(0, "threads; 0: one for graphs below 200,000 edges, else all", least=0)
    device: str = _setting("cpu", "where to train: cpu, cuda, cuda:1")

    control: str = _setting(
        "none",
        "basic: what gates are compared with, none of their own: an MLP on nodes beside each layer, of a gate's size; "
        "the last layer's edges shut; both; learning from the network's own answers",
        choices=CONTROLS,
    )
    dropedge: float = _setting(0.2, "dropedge: share of the edges that is dropped", least=0)
    neuralsparse: int = _setting(10, "neuralsparse: edges that a node keeps", least=1)

    gate_hidden: int = _setting(16, "hidden units of a gate's MLP; 0: a number for each end", least=0)
    gate_mlp: bool = _setting(False, "ptdnet-plus: add the MLP's logit to the prior's")
    gate_bias: float = _setting(2.0, "what the gates' logits start from; positive: open")
    gate_symmetric: bool = _setting(False, "equal gates for an edge and its reverse")
    gate_normalize: bool = _setting(False, "normalise each node's features for the gate")
    gate_lr: float = _setting(0.01, "learning rate of gates", least=0)
    gate_warm_up: int = _setting(0, "epochs in which the gates' rate rises from 0", least=0)
    tau: float = _setting(2.0, "temperature at the start", least=1e-6)
    tau_decay: float = _setting(0.99, "its factor an epoch", least=1e-6)
    tau_least: float = _setting(0.05, "where it ends", least=1e-6)
    edges: float = _setting(0.0, "weight of the expected share of kept edges, summed over layers", least=0)
    rank: float = _setting(0.0, "weight of the low-rank term", least=0)
    rank_k: int = _setting(1, "how many singular values count in it", least=1)
    samples: int = _setting(1, "draws of the gates a step; predictions are averaged", least=1)
    consistency: float = _setting(0.01, "weight of the draws' squared distance from their mean", least=0)
    consistency_warm_up: int = _setting(0, "epochs in which its weight rises from 0", least=0)
    sharpen: float = _setting(
        0.0,
        "above 0: it is probabilities that are drawn to their mean, sharpened by this temperature; 0: outputs",
        least=0,
    )
    prior: bool = _setting(True, "ptdnet-plus: the density prior")
    agreement: bool = _setting(True, "ptdnet-plus: the agreement of both ends' predicted labels")

    def __post_init__(self) -> None:
        for setting in fields(self):
            value = _checked(setting, getattr(self, setting.name))
            object.__setattr__(self, setting.name, value)
        if self.fanouts and len(self.fanouts) != self.layers:
            raise ValueError(f"fanouts must have a number for each of the {self.layers} layers; got {self.fanouts}")
        if self.control != "none" and self.method != "basic":
            raise ValueError(f"control is for the method basic; got {self.control} with {self.method}")
        if self.dropout > 0.999 or self.dropedge > 0.999:
            raise ValueError(f"dropout and dropedge must be at most 0.999; got {self.dropout} and {self.dropedge}")
        if 0 < self.sharpen < 0.05:
            raise ValueError(f"sharpen must be 0 or at least 0.05; got {self.sharpen}")
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
    if wanted is not str and not all(setting.metadata["least"] <= item < math.inf for item in items):
        raise ValueError(f"{name} must be a number of at least {setting.metadata['least']:g}; got {value!r}")
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
    """The settings that a TOML file gives, each known by name."""
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
    """What a file says for a task, backbone and method: the values at its top, then those of the tables ``[BACKBONE]``,
    ``[METHOD]``, ``[TASK]`` and ``[METHOD.BACKBONE]``, where later ones count more."""
    of_method = tables.get(key["method"], {})
    known = {*TASKS, *BACKBONES, *METHODS}
    values = {name: value for name, value in tables.items() if name not in known}
    for table in (tables.get(key["backbone"], {}), of_method, tables.get(key["task"], {})):
        values.update({name: value for name, value in table.items() if name not in BACKBONES})
    values.update(of_method.get(key["backbone"], {}))
    _check_names(values, where)
    return values


def defaults(given: Mapping[str, Any], folder: Path = DEFAULTS) -> dict[str, Any]:
    """What the files of a folder say for the data set, task, backbone and method of ``given``.

    ``common.toml``, then ``DATASET.toml``, then ``DATASET+NOISE.toml``, where later files count more; each as
    :func:`merged` reads it. Of noise the nearest number counts that has a file, where ``DATASET.toml`` is that of 0.
    Link prediction has files of its own, ``DATASET-link.toml``.
    """
    key = {name: given.get(name, setting.default) for name, setting in _FIELDS.items()}
    name = str(key["dataset"]).lower() + ("" if key["task"] == "node" else f"-{key['task']}")
    files = {path.stem: path for path in folder.glob("*.toml")}
    noisy = [file.rpartition("+") for file in files]
    levels = [0, *(int(level) for start, _, level in noisy if start == name and level.isdigit())]
    nearest = min(levels, key=lambda level: (abs(level - key["noise_edges"]), -level))
    values: dict[str, Any] = {}
    for file in ("common", name, f"{name}+{nearest}"):
        if file in files:
            values.update(merged(read_toml(files[file]), key, str(files[file])))
    return values


def resolve(given: Mapping[str, Any] | None = None, /, **more: Any) -> Settings:
    """Settings from those given and, for all others, the defaults for their data set, method and backbone.

    Parameters
    ----------
    given : mapping, optional
        Names and values, as :func:`read_settings` gives them.
    **more
        Others, which count more.

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
    """Puts values into the table ``[METHOD.BACKBONE]`` of a defaults file, which is written anew. Comments at its top
    stay."""
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
    write_whole(path, "".join([*top, *lines]).lstrip("\n"))

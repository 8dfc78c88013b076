"""Graphs with features, labels and splits, checked once for training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from .._dgl import dgl
from .random_pairs import generator

SPLITS = ("train", "val", "test")


@dataclass
class Dataset:
    r"""Graphs with features, labels and splits.

    Make one of your own graphs with :meth:`from_graphs`.

    Parameters
    ----------
    name : str
        Its name in tables and folders.
    graphs : list[dgl.DGLGraph]
        One graph, or several for inductive learning. Each has in ``ndata``: ``"feat"``, float32 :math:`(N, F)`;
        ``"label"``, int64 :math:`(N,)`, negative if unknown, or float32 :math:`(N, C)` of zeros and ones;
        ``"train_mask"``, ``"val_mask"``, ``"test_mask"``, bool :math:`(N,)`, which do not overlap.
    num_classes : int
        Number of classes, or of labels if a node has several.
    multilabel : bool
        Whether a node has several labels.

    Notes
    -----
    The metric of a split is computed over the nodes of its mask in all graphs. In PPI each graph belongs to one split,
    so one of its masks is all True; ``ndata["label_exact"]`` marks the nodes whose labels are the published ones.

    Examples
    --------
    >>> from dgl_ptdnet.data import synthetic
    >>> data = synthetic()
    >>> data.num_classes, data.num_feats, data.inductive, data.metric
    (5, 30, False, 'accuracy')
    >>> g = data.graph
    >>> g.ndata["feat"].shape[0] == g.num_nodes()
    True
    """

    name: str
    graphs: list[dgl.DGLGraph]
    num_classes: int
    multilabel: bool

    @property
    def graph(self) -> dgl.DGLGraph:
        """The only graph."""
        if len(self.graphs) != 1:
            raise ValueError(f"{self.name} has {len(self.graphs)} graphs, not one. Use .graphs")
        return self.graphs[0]

    @property
    def num_feats(self) -> int:
        """Number of features of a node."""
        return self.graphs[0].ndata["feat"].shape[1]

    @property
    def inductive(self) -> bool:
        """Whether there are several graphs."""
        return len(self.graphs) > 1

    @property
    def metric(self) -> str:
        """``"accuracy"``, or ``"micro-F1"`` if a node has several labels."""
        return "micro-F1" if self.multilabel else "accuracy"

    @classmethod
    def from_graphs(
        cls, graphs: dgl.DGLGraph | Sequence[dgl.DGLGraph], *, name: str = "graph", seed: int = 0
    ) -> Dataset:
        r"""Checks graphs, converts their fields to the right dtypes, and adds splits if they have none.

        Parameters
        ----------
        graphs : dgl.DGLGraph or list[dgl.DGLGraph]
            Graphs with ``"feat"`` and ``"label"`` in ``ndata`` and, optionally, ``"train_mask"``, ``"val_mask"`` and
            ``"test_mask"``. Masks of shape :math:`(N, S)` are :math:`S` splits; number ``seed`` modulo :math:`S` is
            used. The given graphs are not changed.
        name : str
            Its name in tables and folders. Default: ``"graph"``.
        seed : int
            Seed of the splits. Without masks, 60 % of the nodes with a label are for training, 20 % for validation and
            20 % for the test; several graphs are divided as wholes. Default: 0.

        Returns
        -------
        Dataset
            The same graphs, ready for training.

        Examples
        --------
        >>> import dgl, torch
        >>> from dgl_ptdnet.data import Dataset
        >>> g = dgl.graph(([0, 1, 2, 3, 4], [1, 2, 3, 4, 0]))
        >>> g.ndata["feat"], g.ndata["label"] = torch.rand(5, 3), torch.tensor([0, 1, 0, 1, 1])
        >>> data = Dataset.from_graphs(g, name="ring")
        >>> data.num_classes, int(data.graph.ndata["train_mask"].sum())
        (2, 3)
        """
        graphs = [graphs] if isinstance(graphs, dgl.DGLGraph) else list(graphs)
        if not graphs:
            raise ValueError(f"{name}: there is no graph")
        graphs = [_checked(g, name if len(graphs) == 1 else f"{name}, graph {i}") for i, g in enumerate(graphs)]
        labels = [g.ndata["label"] for g in graphs]
        for field in ("feat", "label"):
            if len(shapes := {tuple(g.ndata[field].shape[1:]) for g in graphs}) > 1:
                raise ValueError(f'{name}: the graphs differ in the width of "{field}": {sorted(shapes)}')
        masked = [g for g in graphs if any(f"{split}_mask" in g.ndata for split in SPLITS)]
        if masked and len(masked) < len(graphs):
            raise ValueError(f"{name}: some graphs have masks, others do not. Give masks to all or to none")
        if not masked:
            _split(graphs, seed, name)
        for i, g in enumerate(graphs):
            _check_masks(g, seed, name if len(graphs) == 1 else f"{name}, graph {i}")
        for split in SPLITS:
            if not any(g.ndata[f"{split}_mask"].any() for g in graphs):
                raise ValueError(f'{name}: "{split}_mask" is empty. Mark nodes in it, or leave out all three masks')
        multilabel = labels[0].dim() == 2
        num_classes = labels[0].shape[1] if multilabel else max(int(x.max()) for x in labels if len(x)) + 1
        return cls(name, graphs, num_classes, multilabel)


def _checked(g: dgl.DGLGraph, name: str) -> dgl.DGLGraph:
    if not g.is_homogeneous or g.is_block:
        raise ValueError(f"{name}: must have one type of nodes and edges. Use dgl.to_homogeneous(g, ndata=[...])")
    g = g.local_var()
    for field, shape in (("feat", "[N, F] numbers"), ("label", "[N] classes, or [N, C] zeros and ones")):
        if field not in g.ndata:
            raise ValueError(
                f'{name}: g.ndata["{field}"] is missing (there is: {", ".join(g.ndata) or "nothing"}). '
                f'Set g.ndata["{field}"], {shape}, before you save the graph'
            )
    feat = g.ndata["feat"].float()
    if feat.dim() != 2 or not torch.isfinite(feat).all():
        found = f"shape {tuple(feat.shape)}"
        if feat.dim() == 2:
            found = f"{float(feat[~torch.isfinite(feat)][0])} at node {int((~torch.isfinite(feat)).nonzero()[0, 0])}"
        raise ValueError(f'{name}: "feat" must be finite numbers of shape [N, F]; got {found}')
    g.ndata["feat"], g.ndata["label"] = feat, _checked_labels(g.ndata["label"], name)
    return g


def _checked_labels(label: Tensor, name: str) -> Tensor:
    if label.dim() == 2 and label.shape[1] == 1:
        label = label[:, 0]
    if label.dim() == 1 and (label == label.long()).all():
        if len(label) and label.max() > max(1000, len(label)):
            raise ValueError(f'{name}: "label" has the class {int(label.max())}. Number the classes from 0')
        return label.long()
    if label.dim() == 2 and ((label == 0) | (label == 1)).all():
        return label.float()
    raise ValueError(
        f'{name}: "label" must be class numbers of shape [N] (negative if unknown) or zeros and ones of shape '
        f"[N, C]; got {label.dtype} of shape {tuple(label.shape)}"
    )


def _known(g: dgl.DGLGraph) -> Tensor:
    label = g.ndata["label"]
    return torch.ones_like(label[:, 0], dtype=torch.bool) if label.dim() == 2 else label >= 0


def _split(graphs: list[dgl.DGLGraph], seed: int, name: str) -> None:
    """Sets random masks of 60/20/20 %: over the nodes of one graph, or over several graphs."""
    num, what = len(graphs), "graphs"
    if num == 1:
        num, what = int(_known(graphs[0]).sum()), "nodes with a label"
    if num < 3:
        raise ValueError(f"{name}: {num} {what} are too few to split in three. Give masks, or more {what}")
    order, held = generator(seed, "split").permutation(num), max(1, num // 5)
    parts = np.zeros(num, np.int64)
    parts[order[:held]], parts[order[held : 2 * held]] = 1, 2
    for i, g in enumerate(graphs):
        known = _known(g)
        part = torch.full_like(known, -1, dtype=torch.long)
        part[known] = torch.from_numpy(parts if len(graphs) == 1 else parts[i : i + 1]).to(g.device)
        for k, split in enumerate(SPLITS):
            g.ndata[f"{split}_mask"] = part == k


def _check_masks(g: dgl.DGLGraph, seed: int, name: str) -> None:
    marks = torch.zeros(g.num_nodes(), dtype=torch.long, device=g.device)
    for split in SPLITS:
        mask = g.ndata.get(f"{split}_mask")
        if mask is None:
            raise ValueError(f'{name}: "{split}_mask" is missing. Give all three masks, or none for a random split')
        if mask.dim() == 2:
            mask = mask[:, seed % mask.shape[1]]
        g.ndata[f"{split}_mask"] = mask.bool()
        marks += mask.bool()
    if (marks > 1).any():
        raise ValueError(f"{name}: node {int((marks > 1).nonzero()[0])} is in more than one of the three masks")
    if (unknown := marks.bool() & ~_known(g)).any():
        raise ValueError(f"{name}: node {int(unknown.nonzero()[0])} is in a mask, but its label is unknown")

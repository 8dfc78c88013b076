"""The tasks: node classification and link prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .._dgl import dgl
from ..data import Dataset, split_edges
from ..data.dataset import SPLITS
from ..graph import edges_of
from ..ops import EdgeIndex, edge_dot
from ..sparse import sparse_if_faster
from ..threads import torch_threads
from .settings import Settings


class Step(NamedTuple):
    """The input of a training step. ``graph`` is a graph, or a list of blocks, one for each layer."""

    part: int
    graph: Any
    x: Any
    target: Any


class Scores(NamedTuple):
    """A model's metric and loss on a split, other scores by name, and its output for each graph of the split."""

    metric: float
    loss: float
    more: dict[str, float]
    outputs: dict[int, Tensor]


def with_loops(g: Any, backbone: str) -> Any:
    """The graph with or without self-loops, as the backbone needs it. For gcn and gat they are the last edges of the
    graph; the other backbones use a node's own features without them."""
    g = dgl.remove_self_loop(g) if g.has_edges_between(g.nodes(), g.nodes()).any() else g
    return dgl.add_self_loop(g) if backbone in ("gcn", "gat") else g


@dataclass
class Part:
    """One graph of a data set for training: with the self-loops that the backbone needs; ``source`` is the original."""

    graph: Any
    x: Any
    source: Any

    @classmethod
    def of(cls, g: Any, settings: Settings) -> Part:
        graph = with_loops(g, settings.backbone).to(settings.device)
        x = graph.ndata["feat"]
        return cls(graph, x if settings.batch_size else sparse_if_faster(x), g)


class NodeClassification:
    """Node classification. The metric is accuracy, or micro-F1 if a node has several labels.

    With several graphs each step uses one of them, in a random order for each epoch. If nodes are marked with
    ``label_exact``, scores are computed for the marked nodes and for all.
    """

    def __init__(self, data: Dataset, settings: Settings, seed: int) -> None:
        self.settings, self.seed, self.multilabel = settings, seed, data.multilabel
        self.metric, self.in_feats, self.out_feats = data.metric, data.num_feats, data.num_classes
        self.parts = [Part.of(g, settings) for g in data.graphs]
        self.labels = [part.graph.ndata["label"] for part in self.parts]
        self.rows = {name: [part.graph.ndata[f"{name}_mask"] for part in self.parts] for name in SPLITS}
        if "label_exact" in self.parts[0].graph.ndata:
            exact = [part.graph.ndata["label_exact"] for part in self.parts]
            for name in SPLITS:
                masked = [rows & sure for rows, sure in zip(self.rows[name], exact)]
                self.rows.update({f"{name}_exact": masked, f"{name}_all": self.rows[name]})
                if settings.exact_labels:
                    self.rows[name] = masked
        self.rows = {name: [rows.nonzero().flatten() for rows in of] for name, of in self.rows.items()}
        if not self.multilabel:
            train = torch.cat([y[rows] for y, rows in zip(self.labels, self.rows["train"])])
            self.chance = float(train.bincount().max()) / len(train)
        else:
            self.chance = 0.0

    def steps(self) -> Iterator[Step]:
        if self.settings.batch_size:
            yield from self._mini_batches()
            return
        with_rows = [k for k, rows in enumerate(self.rows["train"]) if len(rows)]
        for k in torch.randperm(len(with_rows)).tolist() if len(with_rows) > 1 else [0]:
            part = with_rows[k]
            rows = self.rows["train"][part]
            yield Step(part, self.parts[part].graph, self.parts[part].x, (rows, self.labels[part][rows]))

    def _mini_batches(self) -> Iterator[Step]:
        s = self.settings
        sampler = dgl.dataloading.NeighborSampler(list(s.fanouts or [10] * s.layers))
        for number, part in enumerate(self.parts):
            rows = self.rows["train"][number]
            order = rows[torch.randperm(len(rows), device=rows.device)]
            for nodes in order.split(s.batch_size):
                with torch_threads(1):  # with several threads, DGL's samples differ from run to run
                    inputs, seeds, blocks = sampler.sample(part.graph, nodes.to(part.graph.idtype))
                target = (torch.arange(len(seeds), device=rows.device), self.labels[number][nodes])
                yield Step(number, blocks, part.x[inputs.long()], target)

    def loss(self, out: Tensor, target: Any) -> tuple[Tensor, Tensor]:
        """The loss, and counts for :meth:`score`: true positives, false positives, false negatives. With one label for
        each node their F1 is the accuracy."""
        rows, labels = target
        out = out[rows].float()
        if self.multilabel:
            positive, true = out.detach() > 0, labels > 0
            counts = torch.stack([(positive & true).sum(), (positive & ~true).sum(), (~positive & true).sum()])
            return functional.binary_cross_entropy_with_logits(out, labels), counts
        wrong = (out.detach().argmax(1) != labels).sum()
        return functional.cross_entropy(out, labels), torch.stack([len(rows) - wrong, wrong, wrong])

    def probabilities(self, out: Tensor) -> Tensor:
        """Probabilities :math:`(..., N, questions, answers)`. With one label for each node there is one question: which
        label; with several labels there is a question for each: yes or no."""
        return torch.stack([out, -out], -1).sigmoid() if self.multilabel else out.softmax(-1).unsqueeze(-2)

    @staticmethod
    def score(counts: Tensor) -> float:
        """F1, the metric."""
        right, extra, missing = counts.tolist()
        return 2 * right / max(1, 2 * right + extra + missing)

    def evaluate(self, model: nn.Module, split: str) -> Scores:
        names = [name for name in (split, f"{split}_exact", f"{split}_all") if name in self.rows]
        counts = {name: torch.zeros(3, dtype=torch.int64, device=self.settings.device) for name in names}
        total, num, outputs = 0.0, 0, {}
        for k, part in enumerate(self.parts):
            if not any(len(self.rows[name][k]) for name in names):
                continue
            outputs[k] = out = model(part.graph, part.x)
            for name in names:
                rows = self.rows[name][k]
                loss, counted = self.loss(out, (rows, self.labels[k][rows]))
                counts[name] += counted
                if name == split and len(rows):
                    total, num = total + float(loss) * len(rows), num + len(rows)
        metric, *more = (self.score(counts[name]) for name in names)
        return Scores(metric, total / max(1, num), dict(zip(names[1:], more)), outputs)


class LinkPrediction:
    """Link prediction as in GAE: the logit of a link is the inner product of two nodes' embeddings.

    85 % of the linked pairs are for training, 5 % for validation, 10 % for the test. The network, its gates and their
    bias see the training graph only. In training each linked pair is compared with a random pair.
    """

    metric, chance, multilabel = "AUC", 0.5, False

    def __init__(self, data: Dataset, settings: Settings, seed: int) -> None:
        if settings.batch_size:
            raise ValueError("link prediction uses the whole graph in each step: leave out batch_size")
        if settings.consistency_temperature:
            raise ValueError(
                "consistency_temperature is for node classification, where outputs are probabilities: leave it at 0"
            )
        if len(data.graphs) > 1:
            raise ValueError(f"link prediction is for one graph; {data.name} has {len(data.graphs)}")
        split = split_edges(data.graph, seed)
        if not len(split.val) or not len(split.test):
            raise ValueError(
                f"link prediction holds out 5 % of the linked pairs for validation and 10 % for the test. {data.name} "
                "has too few: there must be 20"
            )
        self.in_feats, self.out_feats = data.num_feats, settings.embedding
        self.parts = [Part.of(split.graph, settings)]
        self.num_nodes = split.graph.num_nodes()
        self.linked = edges_of(split.graph.to(settings.device)).index
        self.labels = [self.parts[0].graph.ndata["label"]]
        self.held = {}
        for name, pairs in (("val", (split.val, split.val_not)), ("test", (split.test, split.test_not))):
            u, v = torch.cat(pairs).to(settings.device).T
            truth = torch.cat([torch.ones(len(pairs[0])), torch.zeros(len(pairs[1]))])
            self.held[name] = (EdgeIndex(u, v, self.num_nodes, self.num_nodes), truth.to(settings.device))

    def steps(self) -> Iterator[Step]:
        u, v = torch.randint(self.num_nodes, (2, self.linked.num_edges), device=self.linked.src.device)
        yield Step(0, self.parts[0].graph, self.parts[0].x, EdgeIndex(u, v, self.num_nodes, self.num_nodes))

    def loss(self, out: Tensor, target: Any) -> tuple[Tensor, Tensor]:
        linked, others = (edge_dot(index, out.float(), out.float()) for index in (self.linked, target))
        right = (linked.detach() > others.detach()).sum()  # an estimate of the AUC
        wrong = len(linked) - right
        loss = functional.softplus(-linked).mean() + functional.softplus(others).mean()
        return loss, torch.stack([right, wrong, wrong])

    score = staticmethod(NodeClassification.score)

    def evaluate(self, model: nn.Module, split: str) -> Scores:
        from sklearn.metrics import average_precision_score, roc_auc_score  # a second to import

        out = model(self.parts[0].graph, self.parts[0].x).float()
        index, truth = self.held[split]
        scores = edge_dot(index, out, out)
        loss = functional.binary_cross_entropy_with_logits(scores, truth)
        pair = truth.cpu().numpy(), scores.cpu().numpy()
        precision = float(average_precision_score(*pair))
        return Scores(float(roc_auc_score(*pair)), float(loss), {f"{split}_ap": precision}, {0: out})


def make_task(data: Dataset, settings: Settings, seed: int) -> NodeClassification | LinkPrediction:
    """The task of the settings."""
    if settings.device != "cpu":
        try:
            dgl.rand_graph(2, 2).to(settings.device)
        except Exception as error:  # torch, DGL and the driver each have their own
            reason = str(error).splitlines()[0]
            raise ValueError(f"device {settings.device!r} cannot be used here ({reason}). Choose another") from error
    return (LinkPrediction if settings.task == "link" else NodeClassification)(data, settings, seed)

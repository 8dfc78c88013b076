"""What belongs to a DGL graph alone, made once for a graph, kept with it and freed with it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from .ops import EdgeIndex
from .pairs import pair_ids

ID = "_ID"  # dgl.EID and dgl.NID: where DGL keeps the ids that edges and nodes have in the graph they were taken from
_KEY = "dgl_ptdnet"
_by_frame: dict[int, tuple[weakref.ref, Edges]] = {}


def _kept(function: Callable[[Any], Any]) -> cached_property:
    """A property that is computed once, outside of inference mode: what is made inside of it cannot be trained with."""
    return cached_property(torch.inference_mode(False)(function))


class Edges:
    """The edges of one edge type: their index, and what follows from their ends alone.

    ``same_nodes``: both ends are nodes of one set, so that an edge can be a self-loop. ``sampled``: they are those of a
    block, whose destinations are the first of its sources.
    """

    def __init__(
        self, src: Tensor, dst: Tensor, num_src: int, num_dst: int, same_nodes: bool, sampled: bool = False
    ) -> None:
        self.index = EdgeIndex(src, dst, num_src, num_dst)
        self.same_nodes, self.sampled = same_nodes, sampled

    @_kept
    def loops(self) -> Tensor | None:
        """Which edges are self-loops, bool [E]; None where there are none."""
        if not self.same_nodes:
            return None
        loops = self.index.src == self.index.dst
        return loops if bool(loops.any()) else None

    def open_loops(self, z: Tensor) -> Tensor:
        """Gates with those of self-loops set to 1: a self-loop carries a node's own features, which are not noise."""
        return z if self.loops is None else torch.where(self.loops, 1, z)

    def open_loops_by_bias(self, bias: Tensor | None) -> Tensor | None:
        """The same for the bias of logits: infinite at self-loops, so that their gates are 1 and have no gradient."""
        if self.loops is None:
            return bias
        return self._loop_bias if bias is None else torch.where(self.loops, torch.inf, bias)

    @_kept
    def _loop_bias(self) -> Tensor:
        return torch.where(self.loops, torch.inf, 0.0)

    @_kept
    def pairs(self) -> Tensor:
        """The id of the pair of nodes that each edge joins, int64 [E]."""
        return pair_ids(self.index.src, self.index.dst)

    @_kept
    def has_destination_without_edges(self) -> bool:
        """Whether a destination has no edge at all."""
        return bool((self.index.tensors.in_ptr.diff() == 0).any())


def edges_of(g: Any) -> Edges:
    """The edges of a DGLGraph or block with one edge type.

    They are kept in DGL's own structure, which copies and local scopes share and which a change of the graph clears.
    ``g[etype]`` makes a new structure at every use but shares the frame of edge features, so a frame finds them, too.
    """
    if not hasattr(g, "canonical_etypes") or not hasattr(g, "_graph"):
        raise TypeError(f"g must be a DGLGraph or a block; got {type(g).__name__}")
    cache = g._graph._cache
    if _KEY in cache:
        return cache[_KEY]
    if len(g.canonical_etypes) != 1:
        raise ValueError(
            f"the graph has {len(g.canonical_etypes)} edge types, {', '.join(str(x) for x in g.canonical_etypes)}: "
            "a gate is for one. Pass g[etype], or put a gate into each conv of a HeteroGraphConv"
        )
    src, dst = _ends(g)
    frame = g._edge_frames[0]
    _, edges = _by_frame.get(id(frame), (None, None))
    sizes = (g.num_src_nodes(), g.num_dst_nodes())
    if edges is None or not _same(edges.index, src, dst, sizes):
        edges = Edges(src, dst, *sizes, same_nodes=g.srctypes == g.dsttypes, sampled=g.is_block)
        key = id(frame)
        _by_frame[key] = (weakref.ref(frame, lambda _: _by_frame.pop(key, None)), edges)
    cache[_KEY] = edges
    return edges


def _ends(g: Any) -> tuple[Tensor, Tensor]:
    if "coo" in {name for names in g.formats().values() for name in names}:
        return g.edges(order="eid")
    src, dst, place = g.edges(form="all", order="srcdst")
    order = torch.empty_like(place)
    order[place.long()] = torch.arange(len(place), dtype=place.dtype, device=place.device)
    return src[order.long()], dst[order.long()]


def _same(index: EdgeIndex, src: Tensor, dst: Tensor, sizes: tuple[int, int]) -> bool:
    """Whether an index is that of these edges. DGL returns the memory of its own structure, and the index keeps it
    alive: equal addresses mean equal edges."""
    ours, theirs = (
        (x.data_ptr(), y.data_ptr(), len(x), x.device, x.dtype) for x, y in ((index.src, index.dst), (src, dst))
    )
    return ours == theirs and (index.num_src, index.num_dst) == sizes and len(src) > 0


def split_features(g: Any, h: Any) -> tuple[Tensor, Tensor]:
    """The features of sources and destinations: ``h`` itself if it is a pair, else split as DGL's own layers do."""
    if isinstance(h, tuple):
        if len(h) != 2:
            raise ValueError(f"a pair of features has two parts, those of sources and destinations; got {len(h)}")
        return h
    if not hasattr(h, "shape") or not len(h.shape):
        raise TypeError(f"features must be a tensor [N, F] or a pair of tensors; got {type(h).__name__}")
    return h, h[: g.num_dst_nodes()] if g.is_block else h


def edge_ids(g: Any) -> Tensor | None:
    """The numbers that key the draws of a graph's edges: those in the graph that it was sampled from, or None for
    0 .. E-1."""
    if ID in g.edata:
        return g.edata[ID].long()
    if g.is_block:
        raise ValueError(
            "the block does not say which edges of the whole graph it has, so their draws would not be those edges' "
            "own. Set block.edata[dgl.EID]: DGL's samplers do, GraphBolt's with include_original_edge_id=True"
        )
    return None


def shared_ids(g: Any) -> Tensor:
    """The ids that key the draws of symmetric gates: those of the node pairs, by the numbers that the nodes have in the
    whole graph."""
    edges = edges_of(g)
    if not edges.same_nodes:
        raise ValueError("symmetric=True needs a graph whose edges join nodes of one set; this edge type joins two")
    if ID not in g.srcdata and g.is_block:
        raise ValueError(
            "symmetric=True needs the numbers that a block's nodes have in the whole graph. Set "
            "block.srcdata[dgl.NID]: DGL's samplers do"
        )
    if ID not in g.srcdata:
        return edges.pairs
    nodes = g.srcdata[ID]  # the destinations of a block are the first of its sources
    return pair_ids(nodes[edges.index.src.long()], nodes[edges.index.dst.long()])

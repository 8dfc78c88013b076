"""A graph's edges ordered by destination and by source. A graph needs one index, made once."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _library


class IndexTensors(NamedTuple):
    """The ``index`` of every operator: contiguous int32 tensors. An edge's position is its place in the order by
    destination, its slot the place in the order by source. ``out_dst`` and ``out_edge`` could be looked up by
    ``out_pos``; they are stored because a graph is indexed once, but every step sums over its sources."""

    in_ptr: Tensor  # [N_dst + 1] positions of each destination
    in_src: Tensor  # [E] source of each position
    in_dst: Tensor  # [E] destination of each position
    in_edge: Tensor  # [E] number of each position's edge
    out_ptr: Tensor  # [N_src + 1] slots of each source
    out_pos: Tensor  # [E] position of each slot
    out_dst: Tensor  # [E] destination of each slot
    out_edge: Tensor  # [E] number of each slot's edge


class EdgeIndex:
    r"""The edges of a graph ordered by destination and by source.

    The operators need the edges in both orders. To make them takes about as long as a forward pass, so make one index
    for a graph and pass it to every call. Node ids are checked here, once.

    Parameters
    ----------
    src : torch.Tensor
        Source node of every edge, :math:`(E,)`, int32 or int64.
    dst : torch.Tensor
        Destination node of every edge, :math:`(E,)`, of the same dtype.
    num_src : int
        Number of source nodes.
    num_dst : int
        Number of destination nodes. In a graph that is not bipartite both are the number of nodes.

    Attributes
    ----------
    src, dst : torch.Tensor
        The edges, the very tensors that the index was made from.
    num_src, num_dst : int
        Numbers of source and destination nodes.
    num_edges : int
        Number of edges.
    tensors : IndexTensors
        The two orders, int32. By destination: ``in_ptr`` :math:`(N_{dst} + 1,)`, the position where each destination's
        edges start, and ``in_src``, ``in_dst``, ``in_edge`` :math:`(E,)`, the source, destination and number of the
        edge at each position. By source: ``out_ptr`` :math:`(N_{src} + 1,)`, and ``out_pos``, ``out_dst``,
        ``out_edge`` :math:`(E,)`, the edge's position in the first order, its destination and its number.

    Notes
    -----
    Do not change ``src`` or ``dst`` in place after the index was made. :func:`edge_gate`, which takes both edges and an
    index, calls :meth:`check`. A pickle or a deep copy of an index holds ``src`` and ``dst`` and makes the orders anew.

    Examples
    --------
    >>> import torch
    >>> from dgl_ptdnet import EdgeIndex
    >>> index = EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0]), num_src=3, num_dst=2)
    >>> index
    EdgeIndex(num_edges=3, num_src=3, num_dst=2, device='cpu')
    >>> index.tensors.in_ptr.tolist(), index.tensors.in_src.tolist(), index.tensors.in_edge.tolist()
    ([0, 2, 3], [1, 2, 0], [1, 2, 0])
    """

    def __init__(self, src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> None:
        _library.check_tensors(src=src, dst=dst)
        for name, count in (("num_src", num_src), ("num_dst", num_dst)):
            if not (_library.is_compiling() or (isinstance(count, Integral) and not isinstance(count, bool))):
                raise TypeError(f"{name} must be an int; got {type(count).__name__}")
        self.tensors = IndexTensors(*torch.ops.dgl_ptdnet.edge_index(src, dst, num_src, num_dst))
        self.src, self.dst = src, dst
        self.num_src, self.num_dst = num_src, num_dst
        self._versions: tuple[int, int] | None = None
        if not (_library.is_compiling() or src.is_inference() or dst.is_inference()):
            self._versions = (src._version, dst._version)

    @property
    def num_edges(self) -> int:
        return self.src.shape[0]

    def __repr__(self) -> str:
        return (
            f"EdgeIndex(num_edges={self.num_edges}, num_src={self.num_src}, num_dst={self.num_dst}, "
            f"device={str(self.src.device)!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return EdgeIndex, (self.src, self.dst, self.num_src, self.num_dst)

    def check(self, src: Tensor, dst: Tensor) -> None:
        """Raises ValueError unless the index is that of ``src`` and ``dst``.

        The tensors that the index was made from cost nothing to check, other tensors are compared with it edge by edge,
        on the CPU and on a GPU. A change in place of ``index.src`` or ``index.dst`` is an error, too, unless they were
        made under ``torch.inference_mode``. Under ``torch.compile`` only shapes and devices are compared. While a CUDA
        graph is captured, only ``index.src`` and ``index.dst`` are accepted.
        """
        tracing = _library.is_compiling()  # values and versions are unknown then
        if not tracing and self._versions is not None and self._versions != (self.src._version, self.dst._version):
            raise ValueError("src or dst was changed in place after index was made. Make a new one for these edges")
        for name, mine, given, ordered in (
            ("src", self.src, src, self.tensors.in_src),
            ("dst", self.dst, dst, self.tensors.in_dst),
        ):
            if mine is given:
                continue
            if mine.shape != given.shape or mine.device != given.device:
                raise ValueError(
                    f"index was made for {tuple(mine.shape)} {name} ids on {mine.device}, got {tuple(given.shape)} on "
                    f"{given.device}. Make a new one: EdgeIndex(src, dst, num_src, num_dst)"
                )
            if tracing:
                continue
            if given.is_cuda and torch.cuda.is_current_stream_capturing():
                raise ValueError(
                    f"index cannot be compared with {name} while a CUDA graph is captured. Pass the tensors that it "
                    "was made from, index.src and index.dst"
                )
            if not torch.equal(given.index_select(0, self.tensors.in_edge).int(), ordered):
                raise ValueError(f"index was made for other edges: {name} differs. Make a new one for these")


@_library.register_fake("edge_index")
def _(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, ...]:
    def ids(count: Any) -> Tensor:
        return src.new_empty((count,), dtype=torch.int32)

    edges = src.shape[0]
    return (ids(num_dst + 1), *(ids(edges) for _ in range(3)), ids(num_src + 1), *(ids(edges) for _ in range(3)))

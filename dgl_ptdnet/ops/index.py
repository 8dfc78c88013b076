"""The order of a graph's edges by destination and by source, made once for a graph."""

from __future__ import annotations

from numbers import Integral
from typing import Any, NamedTuple

import torch
from torch import Tensor

from . import _library


class IndexTensors(NamedTuple):
    """What every operator takes as ``index``, int32; all contiguous. A position is an edge's place in the order by
    destination, a slot its place in the order by source. Eight tensors, where six would do: with positions alone each
    sum over sources would look up every edge twice, and a graph is indexed once but walked in every step."""

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

    The kernels walk a graph in these orders; without an index every call makes one, which costs about as much
    as a forward pass. The node ids are checked here, once.

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
    tensors : IndexTensors
        The orders, int32: ``in_ptr`` :math:`(N_{dst} + 1,)` and ``in_src``, ``in_dst``, ``in_edge`` :math:`(E,)`: where
        each destination's edges start, and the source, destination and number of the edge at each position of that
        order; ``out_ptr`` :math:`(N_{src} + 1,)` and ``out_pos``, ``out_dst``, ``out_edge`` :math:`(E,)`: the same by
        source, where ``out_pos`` is the edge's position in the first order.

    Notes
    -----
    The index describes ``src`` and ``dst`` as they were; a call that passes other edges with it is refused. A pickle or
    a deep copy of an index holds ``src`` and ``dst`` and makes the orders anew.

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

        The very tensors that the index was made from cost nothing to check; others are compared with it, edge by edge.
        """
        tracing = _library.is_compiling()  # then neither values nor versions can be looked at
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

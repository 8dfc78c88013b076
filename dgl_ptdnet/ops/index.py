"""The order of a graph's edges by destination and by source, made once for a graph."""

from __future__ import annotations

import torch
from torch import Tensor

from . import _library


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
    tensors : tuple[torch.Tensor, ...]
        ``in_ptr`` :math:`(N_{dst} + 1,)`, ``in_src``, ``in_dst``, ``in_edge`` :math:`(E,)`: where each destination's
        edges start, and the source, destination and number of the edge at each position of that order;
        ``out_ptr`` :math:`(N_{src} + 1,)`, ``out_pos`` :math:`(E,)`: the same positions ordered by source. int32.

    Notes
    -----
    The index describes ``src`` and ``dst`` as they were; a call that passes other edges with it is refused.

    Examples
    --------
    >>> import torch
    >>> from dgl_ptdnet import EdgeIndex
    >>> index = EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([1, 0, 0]), num_src=3, num_dst=2)
    >>> index
    EdgeIndex(num_edges=3, num_src=3, num_dst=2, device='cpu')
    >>> in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos = index.tensors
    >>> in_ptr.tolist(), in_src.tolist(), in_edge.tolist()
    ([0, 2, 3], [1, 2, 0], [1, 2, 0])
    """

    def __init__(self, src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> None:
        self.tensors: tuple[Tensor, ...] = tuple(torch.ops.dgl_ptdnet.edge_index(src, dst, num_src, num_dst))
        self.src, self.dst = src, dst
        self._versions: tuple[int, int] | None = None
        if not (_library.is_compiling() or src.is_inference() or dst.is_inference()):
            self._versions = (src._version, dst._version)
        self.num_src, self.num_dst = num_src, num_dst
        self._sides: tuple[Tensor, ...] | None = None

    @property
    def num_edges(self) -> int:
        return self.src.shape[0]

    @property
    def sides(self) -> tuple[Tensor, ...]:
        """``in_ptr, in_src, in_edge, out_ptr, out_dst, out_edge``: destinations and sources alike, for the operators
        that carry messages. Made at first use."""
        if self._sides is None:
            in_ptr, in_src, in_dst, in_edge, out_ptr, out_pos = self.tensors
            out_dst, out_edge = (x.index_select(0, out_pos) for x in (in_dst, in_edge))
            sides = (in_ptr, in_src, in_edge, out_ptr, out_dst, out_edge)
            if _library.is_compiling():  # a traced tensor must not outlive its graph
                return sides
            self._sides = sides
        return self._sides

    def __repr__(self) -> str:
        return (
            f"EdgeIndex(num_edges={self.num_edges}, num_src={self.num_src}, num_dst={self.num_dst}, "
            f"device={str(self.src.device)!r})"
        )

    def check(self, src: Tensor, dst: Tensor) -> None:
        """Raises ValueError unless the index is that of ``src`` and ``dst``.

        The very tensors that the index was made from cost nothing to check; others are compared with them.
        """
        tracing = _library.is_compiling()  # then neither values nor versions can be looked at
        if not tracing and self._versions not in (None, (self.src._version, self.dst._version)):
            raise ValueError("src or dst was changed in place after index was made. Make a new one for these edges")
        for name, mine, given in (("src", self.src, src), ("dst", self.dst, dst)):
            if mine is given:
                continue
            if mine.shape != given.shape or mine.device != given.device:
                raise ValueError(
                    f"index was made for {tuple(mine.shape)} {name} ids on {mine.device}, got {tuple(given.shape)} on "
                    f"{given.device}. Make a new one: EdgeIndex(src, dst, num_src, num_dst)"
                )
            if tracing or given.is_cuda:  # a look at a GPU's values would wait for it
                continue
            if mine.data_ptr() != given.data_ptr() and not torch.equal(mine.long(), given.long()):
                raise ValueError(f"index was made for other edges: {name} differs. Make a new one for these")


@_library.register_fake("edge_index")
def _(src: Tensor, dst: Tensor, num_src: int, num_dst: int) -> tuple[Tensor, ...]:
    sizes = (num_dst + 1, src.shape[0], src.shape[0], src.shape[0], num_src + 1, src.shape[0])
    return tuple(src.new_empty((size,), dtype=torch.int32) for size in sizes)

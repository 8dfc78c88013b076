"""The low-rank term: the sum of the K largest singular values of a gated adjacency, from a few sparse products."""

from __future__ import annotations

import weakref
import zlib
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional

from .graph import edges_of
from .ops import EdgeIndex, IndexTensors
from .threads import torch_threads

_ops = torch.ops.dgl_ptdnet
_METHODS = ("subspace", "power")
_PIECE = 256  # rows; a product of many small matrices has the same bits for any number of threads, one of two large not
_CACHED = 64  # pieces that are widened to float64 at a time, and stay in the cache
_POWER_STEPS = 2


class LowRank(nn.Module):
    r"""The Ky Fan K-norm of the gated adjacency: the sum of its K largest singular values.

    .. math::
        \| A \odot Z \|_K = \sum_{i=1}^{K} \sigma_i, \qquad (A \odot Z)_{uv} = \sum_{e = (u, v)} z_e, \qquad
        \frac{\partial}{\partial z_e} = \sum_{i=1}^{K} U_{ui} V_{vi}

    PTDNet's second regulariser: a penalty on it closes edges between communities. No matrix of size
    :math:`N \times N` is made: a block of a few vectors more than K goes through the graph and back (a sweep), starting
    from where the last call on the same graph ended.

    Parameters
    ----------
    k : int
        K, the number of singular values. A graph with fewer nodes counts all of them.
    method : str
        ``"subspace"``: block subspace iteration, with its gradient in closed form. ``"power"``: the paper's Algorithm
        2, power iteration with deflation that starts from the vectors of the subspace iteration, with its gradient by
        autograd; K times slower. Default: ``"subspace"``.
    tol : float
        A call stops sweeping when the estimated relative error of the value is below this. Default: 0.001.
    max_sweeps : int
        The maximum number of sweeps of a call. Default: 20.
    per_graph : bool
        For a batch of graphs (``dgl.batch``), whose adjacency is block-diagonal. False: the K largest singular values
        of the whole batch. True: the K largest of each graph, summed over the graphs. Default: False.

    Attributes
    ----------
    sweeps : int
        The number of sweeps of the last call, summed over the graphs of a batch.

    Notes
    -----
    Every graph has its own warm start, kept as long as the graph exists. The state_dict holds them all, so a resumed
    run continues with the same bits; a graph is recognised there by its sizes and a checksum of its edges. Cold starts
    are random with a fixed seed. Results have the same bits for any number of threads.

    The value is a lower bound. Directions of singular value 0 have gradient 0. Where the K-th and the next value are
    equal, the gradient is one of several valid ones. There is no second derivative.

    Examples
    --------
    >>> import torch
    >>> import dgl_ptdnet as ptd
    >>> index = ptd.EdgeIndex(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 0]), num_src=3, num_dst=3)
    >>> z = torch.tensor([0.5, 1.0, 0.25], requires_grad=True)
    >>> rank = ptd.LowRank(2)
    >>> value = rank(index, z)
    >>> value
    tensor(1.5000, grad_fn=<_KyFanBackward>)
    >>> value.backward()
    >>> z.grad.round(decimals=4)
    tensor([1., 1., 0.])
    """

    def __init__(
        self,
        k: int,
        *,
        method: str = "subspace",
        tol: float = 1e-3,
        max_sweeps: int = 20,
        per_graph: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(k, int) or k < 1:
            raise ValueError(f"k must be an integer, at least 1; got {k}")
        if method not in _METHODS:
            raise ValueError(f"method must be 'subspace' or 'power'; got {method!r}")
        if not tol >= 0:
            raise ValueError(f"tol must not be negative; got {tol}")
        if max_sweeps < 1:
            raise ValueError(f"max_sweeps must be at least 1; got {max_sweeps}")
        self.k, self.method, self.tol, self.max_sweeps, self.per_graph = k, method, tol, max_sweeps, per_graph
        self.sweeps = 0
        self._forget()

    def _forget(self) -> None:
        self._matrices: WeakKeyDictionary[EdgeIndex, _Matrix] = WeakKeyDictionary()
        self._batches: WeakKeyDictionary[EdgeIndex, tuple[list, list[EdgeIndex]]] = WeakKeyDictionary()
        self._loaded: dict[Fingerprint, Tensor] = {}  # starts of graphs that were not called since they were loaded

    def forward(self, g: Any, z: Tensor, *, remember: bool = True) -> Tensor:
        """The Ky Fan K-norm of the gated adjacency.

        Parameters
        ----------
        g : DGLGraph or EdgeIndex
            A graph or block of one edge type.
        z : torch.Tensor
            The gates, :math:`(E,)`, float32 or float64.
        remember : bool
            Start from where the last call on this graph ended, and keep where this one ends. Default: True. False for
            sampled graphs, which do not come again.

        Returns
        -------
        torch.Tensor
            A scalar of the dtype of ``z``, with its gradient.
        """
        return _without_compiler(self._value)(g, z, remember)

    def _value(self, g: Any, z: Tensor, remember: bool) -> Tensor:
        index = _index_of(g)
        _check_gates(z, index)
        graphs = self._graphs_of(g, index) if self.per_graph else [index]
        values: list[Tensor] = []
        self.sweeps = 0
        with torch.autocast(z.device.type, enabled=False):
            for graph, gates in zip(graphs, z.split([graph.num_edges for graph in graphs])):
                matrix = self._matrices.get(graph)
                if matrix is None:
                    with torch.inference_mode(False):  # a later call may want a gradient
                        matrix = _Matrix(graph)
                if matrix.start is None or matrix.start.rows.dtype != z.dtype:
                    matrix.start = self._first_start(matrix, z)
                values.append(self._norm(matrix, gates))
                if remember:
                    self._matrices[graph] = matrix
        return torch.stack(values).sum() if len(values) > 1 else values[0]

    def _norm(self, matrix: _Matrix, z: Tensor) -> Tensor:
        assert matrix.start is not None
        k = min(self.k, matrix.max_k)
        with torch.no_grad():
            found = _iterate(matrix, z.detach(), matrix.start, k, self.tol, self.max_sweeps)
        matrix.start = found.start
        self.sweeps += found.sweeps
        if self.method == "power":
            return _power(matrix, z, found.start.rows[:, : min(k, found.rank)])
        if not (z.requires_grad and torch.is_grad_enabled()):
            return found.value
        left = _rotated(found.reached, found.left[:, :k])
        return _KyFan.apply(z, found.value, left, found.start.rows[:, :k], matrix.edges)

    def _first_start(self, matrix: _Matrix, z: Tensor) -> _Start:
        """The start that was loaded for this graph, else a cold one."""
        width = _width(min(self.k, matrix.max_k))
        if self._loaded:
            rows = self._loaded.pop(matrix.fingerprint, None)
            if rows is not None and rows.dtype == z.dtype and rows.shape == (matrix.num_dst, width - 1):
                rows = rows.to(z.device)
                return _filled(functional.pad(rows, (0, 1)), int((rows != 0).any(0).sum()))
        return _filled(z.new_empty((matrix.num_dst, width)), 0)

    def _graphs_of(self, g: Any, index: EdgeIndex) -> list[EdgeIndex]:
        """The graphs of a batch: DGL numbers the nodes and edges of the first one first, and so on."""
        if isinstance(g, EdgeIndex) or g.batch_size == 1:
            return [index]
        (source, _, destination), *_ = g.canonical_etypes
        counts = (g.batch_num_edges(), g.batch_num_nodes(source), g.batch_num_nodes(destination))
        sizes = list(zip(*(count.tolist() for count in counts)))
        known, graphs = self._batches.get(index, (None, []))
        if known != sizes:
            graphs, edge, u, v = [], 0, 0, 0
            for num_edges, num_src, num_dst in sizes:
                src, dst = (x[edge : edge + num_edges] for x in (index.src, index.dst))
                graphs.append(EdgeIndex(src - u, dst - v, num_src, num_dst))
                edge, u, v = edge + num_edges, u + num_src, v + num_dst
            self._batches[index] = (sizes, graphs)
        return graphs

    def get_extra_state(self) -> dict[Fingerprint, Tensor]:
        """For every graph that still exists the vectors to start from, zeros where there are fewer."""
        known = {}
        for matrix in self._matrices.values():
            assert matrix.start is not None
            rows, count = matrix.start
            known[matrix.fingerprint] = functional.pad(rows[:, :count], (0, rows.shape[1] - 1 - count))
        return {**self._loaded, **known}

    def set_extra_state(self, state: dict[Fingerprint, Tensor]) -> None:
        self._forget()
        self._loaded = dict(state)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_matrices": None, "_batches": None, "_loaded": self.get_extra_state()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.set_extra_state(state["_loaded"])

    def extra_repr(self) -> str:
        names = ("k", "method", "tol", "max_sweeps", "per_graph")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in names)


def _without_compiler(function: Any) -> Any:
    """The function as torch.compile leaves it: run as it is. The compiler is loaded only where it is at work."""
    return torch.compiler.disable(function) if torch.compiler.is_compiling() else function


Fingerprint = tuple[int, int, int, int]


def _width(k: int) -> int:
    """How many vectors go through the graph for K values: more converge faster, and a multiple of 8 fills registers."""
    return -(-(k + 8) // 8) * 8


def _index_of(g: Any) -> EdgeIndex:
    if isinstance(g, EdgeIndex):
        return g
    if not hasattr(g, "canonical_etypes"):
        raise TypeError(f"g must be a DGLGraph or an EdgeIndex; got {type(g).__name__}")
    return edges_of(g).index


def _check_gates(z: Tensor, index: EdgeIndex) -> None:
    if not isinstance(z, Tensor):
        raise TypeError(f"z must be a torch.Tensor; got {type(z).__name__}")
    if z.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"z must be float32 or float64; got {z.dtype}. Convert it with .float()")
    if z.shape != (index.num_edges,):
        raise ValueError(f"z must be [E], a gate for each of the {index.num_edges} edges; got shape {tuple(z.shape)}")
    if z.device != index.src.device:
        raise ValueError(f"z must be on the graph's device, {index.src.device}; got {z.device}. Move it with .to()")


class _Start(NamedTuple):
    """Vectors to start a sweep from: the first ``known`` are orthonormal, the others random, one or more.

    So what was nothing when the known ones were found, as edges were closed, is found when it comes back.
    """

    rows: Tensor  # [N_dst, width]
    known: int


def _filled(rows: Tensor, known: int) -> _Start:
    known = min(known, rows.shape[1] - 1)
    generator = torch.Generator().manual_seed(0)
    rows[:, known:] = torch.randn(len(rows), rows.shape[1] - known, generator=generator).to(rows)
    return _Start(rows, known)


class _Matrix:
    """The gated adjacency of a graph as something that vectors are multiplied with, and where to start from.

    It has rows and columns of zeros more, so that vectors fall into equal pieces, two or more.
    """

    def __init__(self, index: EdgeIndex) -> None:
        edges = index.tensors
        self.edges = edges._replace(in_ptr=_padded(edges.in_ptr), out_ptr=_padded(edges.out_ptr))
        self.num_dst = len(self.edges.in_ptr) - 1
        self.max_k = max(1, min(index.num_src, index.num_dst))
        self._index = weakref.ref(index)
        self.start: _Start | None = None

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """Tells graphs apart in a saved state: the sizes, and a checksum of the edges in their order."""
        index = self._index()
        assert index is not None
        src, dst = (x.cpu().long().numpy().tobytes() for x in (index.src, index.dst))
        return index.num_src, index.num_dst, index.num_edges, zlib.crc32(dst, zlib.crc32(src))

    def times(self, v: Tensor, z: Tensor) -> Tensor:
        return _ops.aggregate(self.edges, v, z, True)

    def transposed_times(self, u: Tensor, z: Tensor) -> Tensor:
        return _ops.aggregate(self.edges, u, z)


def _padded(ptr: Tensor) -> Tensor:
    rows = len(ptr) - 1
    return torch.cat([ptr, ptr[-1:].expand(max(2 * _PIECE, -(-rows // _PIECE) * _PIECE) - rows)])


class _Found(NamedTuple):
    value: Tensor
    reached: Tensor  # [N_src, width]
    left: Tensor  # reached @ left are the left singular vectors; the right ones are the first rows of start
    rank: int
    start: _Start
    sweeps: int


def _iterate(matrix: _Matrix, z: Tensor, start: _Start, k: int, tol: float, max_sweeps: int) -> _Found:
    """Sweeps: Y = M V, W = M^T Y, and Rayleigh-Ritz on the span of Y, in terms of the small matrices Y^T Y and W^T W.

    With left = T Q, where T^T Y^T Y T = 1 and Q diagonalises T^T W^T W T = Q S^2 Q^T: U = Y left is orthonormal,
    M^T U = W left = V S, and S are the singular values of M restricted to the span of U.
    """
    noise = torch.finfo(z.dtype).eps * 32  # what rounding of the products leaves, relative to the largest
    value = torch.zeros((), dtype=torch.float64)
    for sweep in range(1, max_sweeps + 1):
        y = matrix.times(start.rows, z)
        w = matrix.transposed_times(y, z)
        gram_y, gram_w = _gram(y), _gram(w)
        if not gram_w.trace().isfinite():
            raise ValueError("z must be finite: the products with the gated adjacency are not")
        with torch_threads(1):  # LAPACK's eigenvectors of more than 40 rows depend on the number of threads
            halfway = torch.linalg.eigvalsh(gram_y[: start.known, : start.known])[-k:].clamp(min=0).sqrt().sum()
            earlier = (halfway - value).clamp(min=torch.finfo(torch.float64).tiny)
            whitener, size = _whitener(gram_y, max(noise**2, 1e-14))
            squares, vectors = torch.linalg.eigh(whitener.T @ gram_w @ whitener)
            values = squares.flip(0).clamp(min=0).sqrt()
            rank = min(size, int((values > noise * values[0]).sum()))
            values[rank:] = 0
            left = whitener @ vectors.flip(1)
            left[:, rank:] = 0
            right = left / values.clamp(min=torch.finfo(torch.float64).tiny)
            value = values[:k].sum()
        start = _filled(_rotated(w, right), rank)
        # Each half of a sweep raises the value, by a ratio less than the half before it: the rest is a geometric sum.
        gain = value - halfway
        ratio = 0.5 if sweep == 1 else float((gain / earlier).clamp(max=0.95))
        if gain * ratio <= (1 - ratio) * tol * value:
            break
    return _Found(value.to(z), y, left, rank, start, sweep)


def _gram(x: Tensor) -> Tensor:
    """x^T x in float64, in the order of the rows. On the CPU: what is done with it there takes microseconds."""
    total = torch.zeros((x.shape[1], x.shape[1]), dtype=torch.float64, device=x.device)
    pieces = x.view(-1, _PIECE, x.shape[1])
    for some in pieces.tensor_split(-(-len(pieces) // _CACHED)):  # equal parts: none is a single piece
        wide = some.double()
        total += torch.bmm(wide.transpose(1, 2), wide).sum(0)
    return total.cpu()


def _rotated(x: Tensor, factor: Tensor) -> Tensor:
    pieces = x.view(-1, _PIECE, x.shape[1])
    return torch.bmm(pieces, factor.to(x).expand(len(pieces), -1, -1)).flatten(0, 1)


def _whitener(gram: Tensor, cutoff: float) -> tuple[Tensor, int]:
    """T with T^T gram T = 1 but for zeros where gram is singular, and how many ones there are.

    Columns are brought to one length first: then the conditioning is that of their angles, which are nearly right
    angles where the start was good.
    """
    scale = gram.diagonal().sqrt()
    scale = torch.where(scale > 0, 1 / scale, 0)
    values, vectors = torch.linalg.eigh(gram * scale * scale[:, None])
    kept = values > cutoff
    return scale[:, None] * vectors * torch.where(kept, values, torch.inf).rsqrt(), int(kept.sum())


class _KyFan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, value: Tensor, left: Tensor, right: Tensor, edges: IndexTensors) -> Tensor:
        ctx.edges = edges
        ctx.save_for_backward(left, right)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (grad * _ops.edge_dot(ctx.edges, *ctx.saved_tensors), *(None,) * 4)


def _power(matrix: _Matrix, z: Tensor, vectors: Tensor) -> Tensor:
    """Algorithm 2: for each vector a few steps of power iteration on B = M^T M, its value, and B deflated by it."""
    total = 0 * z.sum()  # with a gradient even if there are no vectors
    found: list[Tensor] = []

    def deflated_product(x: Tensor) -> Tensor:
        for v in reversed(found):
            x = x - v * _dot(v, x)
        return matrix.transposed_times(matrix.times(x, z), z)

    for i in range(vectors.shape[1]):
        v = vectors[:, i : i + 1]
        for _ in range(_POWER_STEPS):
            v = deflated_product(v)
            v = v / _dot(v, v).sqrt()
        total = total + (_dot(v, deflated_product(v)) / _dot(v, v)).sqrt()
        found.append(v)
    return total


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).view(-1, _PIECE).sum(1).sum()

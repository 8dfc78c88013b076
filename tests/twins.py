"""What the tests of operators on an index share: graphs, and the comparison with a plain-torch twin."""

import torch

import dgl_ptdnet as ptd

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def make_index(edges, num_src, num_dst, *, seed=0, hub=False, ids=torch.int64, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(0, max(1, num_src), (edges,), generator=generator, dtype=ids)
    dst = torch.randint(0, max(1, num_dst), (edges,), generator=generator, dtype=ids)
    if hub:  # one destination and one source have nearly all edges
        dst[: edges - edges // 8] = num_dst - 1
        src[edges // 9 :] = num_src - 1
    return ptd.EdgeIndex(src.to(device), dst.to(device), num_src, num_dst)


def gates(*shape, seed=0, dtype=torch.float32):
    """A third exactly 0, some exactly 1, the others between 0.2 and 1."""
    z = (torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) * 1.8 - 0.6).clamp(0, 1)
    return torch.where(z > 0, 0.2 + 0.8 * z, 0).to(dtype)


def numbers(*shape, seed=0, dtype=torch.float32):
    """Normal numbers that are exact in ``dtype``."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def upstream(x, factor=1):
    """A gradient for a result, exact in every dtype."""
    wave = torch.linspace(-1, 1.5, x.numel(), device=x.device, dtype=torch.float64).mul(99).cos()
    return ((wave * 64).round() / 64 * factor).reshape(x.shape).to(x.dtype)


def outcome(function, index, inputs, **options):
    """Results and gradients by name. ``inputs`` go in by name; those that are None are left out."""
    leaves = {name: x.detach().clone().requires_grad_() for name, x in inputs.items() if x is not None}
    results = function(index, **leaves, **options)
    results = results if isinstance(results, tuple) else (results,)
    torch.autograd.backward(results, [upstream(x, k + 1) for k, x in enumerate(results)])
    found = {f"result {k}": x.detach() for k, x in enumerate(results)}
    return {**found, **{f"grad of {name}": x.grad for name, x in leaves.items()}}


def assert_as_good_as_torch(name, index, inputs, plain_dtype=None, units=4, **options):
    """At most twice the twin's own error against float64, and a few ``units`` in the last place.

    Rows in half precision are computed with in float32, so the twin in float32 is what they are compared with; only
    results in the rows' dtype are rounded to it. Where a rounded result enters a gradient, ``plain_dtype`` names the
    dtype of the twin and of the unit. Sums may cancel, and the twin may be lucky: there the unit is that of a typical
    sum of as many terms, over edges and over a row.
    """
    low = any(x is not None and x.dtype != torch.float64 for x in inputs.values())
    acc = plain_dtype or (torch.float32 if low else torch.float64)
    twin, operator = getattr(ptd.reference, name), getattr(ptd, name)
    fused = outcome(operator, index, inputs, **options)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # with more, plain torch adds in another order each time, with another error
    exact, plain = (
        outcome(twin, index, {k: None if x is None else x.to(t) for k, x in inputs.items()}, **options)
        for t in (torch.float64, acc)
    )
    torch.set_num_threads(threads)
    terms = max(1, *(int(x.bincount().max()) if len(x) else 0 for x in (index.src, index.dst)))
    terms *= max(1, *(x[0].numel() for x in inputs.values() if x is not None and len(x)), 1)
    for key, want in exact.items():
        got = fused[key]
        assert got.shape == want.shape, key
        if not want.numel():
            continue
        ours, theirs = ((x[key].double() - want).abs().max().item() for x in (fused, plain))
        scale = max(want.abs().max().item(), 0.4 * terms**0.5)
        unit = max(units * torch.finfo(got.dtype).eps, torch.finfo(acc).eps) if low else 1e-13
        assert ours <= 2 * theirs + unit * scale, f"{key}: {ours:.3g} against {theirs:.3g} of plain torch"


def same_bits(one, other):
    return all(torch.equal(x, y) for x, y in zip(one.values(), other.values()))

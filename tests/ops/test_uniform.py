"""Uniform numbers keyed by edge ids: the specification's draws, for any id, seed and offset."""

import pytest
import torch

import dgl_ptdnet as ptd
from dgl_ptdnet.ops import uniform


@pytest.mark.parametrize("noise", [(0, 0), (7, 3), (-1, 2**62), (2**63 - 1, -(2**63))])
def test_draws_are_those_of_the_specification(noise, device):
    ids = torch.cat([torch.arange(1000), torch.randint(0, 2**62, (5000,), generator=torch.Generator().manual_seed(1))])
    pair = torch.tensor(noise)
    want = ((ptd.reference.philox_bits(ids, pair) >> 9).float() + 0.5) * 2.0**-23
    got = uniform(pair.to(device), ids.to(device))
    assert got.dtype == torch.float32
    assert torch.equal(got.cpu(), want)
    assert got.min() > 0
    assert got.max() < 1
    assert uniform(pair, ids[:0]).shape == (0,)


def test_opcheck_passes_and_it_compiles():
    noise, ids = torch.tensor([7, 0]), torch.arange(9)
    torch.library.opcheck(torch.ops.dgl_ptdnet.uniform.default, (noise, ids))
    compiled = torch.compile(uniform, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(noise, ids), uniform(noise, ids))


def test_wrong_input_is_named():
    noise, ids = torch.tensor([7, 0]), torch.arange(9)
    for error, message, arguments in [
        (TypeError, "noise must be a torch.Tensor; got tuple", ((7, 0), ids)),
        (ValueError, "noise must be int64.2.", (noise[:1], ids)),
        (TypeError, "edge_ids must be torch.int64; got torch.int32", (noise, ids.int())),
        (ValueError, "edge_ids must be .E.", (noise, ids[None])),
    ]:
        with pytest.raises(error, match=message):
            uniform(*arguments)

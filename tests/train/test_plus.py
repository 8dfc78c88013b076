"""Edge bias and self-training."""

import copy

import pytest
from runs import settings, small, trainer

from dgl_ptdnet.train import train


def test_self_training_begins_after_the_warm_up_and_resumes(tmp_path):
    given = {"method": "basic", "hidden": 4, "seeds": 1, "epochs": 6, "agreement_warm_up": 3}
    basic, taught = (
        [row.val_loss for row in train(settings(**given, control=control), small()).seeds[0].history]
        for control in ("none", "self-training")
    )
    assert taught[:3] == basic[:3]
    assert taught[3] != basic[3]
    first, second = (trainer(**given, control="self-training") for _ in range(2))
    for _ in range(4):
        first.run_epoch()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    while not second.done:
        second.run_epoch()
    assert [row.val_loss for row in second.history] == taught
    with pytest.raises(ValueError, match="one label a node"):
        train(settings(**given, control="self-training", batch_size=8), small())

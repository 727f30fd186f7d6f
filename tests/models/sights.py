"""What the tests of vision-language models check on a small random model: the vision stage's FLOPs, and parameters.

In: a card, and what transformers' vision tower takes. Out: assertions.
"""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from accord.estimate.work import step_flops
from accord.models.card import Json
from accord.models.read import read_card
from accord.terms.work import Load
from tests.models import peers


def check_sight(card: Mapping[str, Json], *, patches: int, batch: int = 1, extra: int = 0, **inputs: Any) -> None:
    """All parameters, and the FLOPs of `batch` pictures of `patches` patches each.

    `extra` FLOPs are transformers' own: what it does with matrices where none are needed.
    """
    read = read_card(card, name="small")
    model = peers.small_model(peers.config_of(card), peers.AutoModelForImageTextToText)
    assert read.parameters == peers.parameters_of(model)
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        found = getattr(model, "model", model).get_image_features(**inputs)
        if hasattr(model, "multi_modal_projector"):  # Llama 4 projects outside
            model.multi_modal_projector(found.last_hidden_state)
    counted = step_flops(read.of("vision").operators, Load(new=patches, batch=batch), rectangle=True)
    assert counted + extra == pytest.approx(counter.get_total_flops(), rel=0.01)

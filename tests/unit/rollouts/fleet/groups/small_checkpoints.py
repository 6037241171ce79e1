"""Checkpoints with the alphabet of some lessons, and managers that use them."""

from pathlib import Path
from typing import Any

import torch

from rollouts.fleet.engine.building import build
from rollouts.fleet.engine.checkpoints import save
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, save_tokenizer
from tests.unit.rollouts.fleet.groups.conftest import language

LESSONS: dict[str, Any] = {
    "reverse": {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}},
    "sampled": {"spec": "task:reverse", "kwargs": {"length": 1, "letters": 3}},
}


def make_checkpoint(folder: Path, lessons: dict[str, Any] = LESSONS, *, seed: int = 0) -> Path:
    """Write a checkpoint with random weights and return its folder."""
    torch.manual_seed(seed)
    model, tokenizer = build(language(lessons))
    assert isinstance(tokenizer, AlphabetTokenizer)
    save(model, folder)
    save_tokenizer(tokenizer, folder)
    return folder

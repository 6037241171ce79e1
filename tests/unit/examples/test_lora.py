"""An adapter of the example trainer learns, and its model stays frozen."""

from pathlib import Path

import pytest
import torch

from examples.grpo import CheckpointFolder, Learner, Settings
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.checkpoints import (
    AdaptedModel,
    CheckpointUnreadable,
    published_tensors,
    restore,
    whole,
)
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.inference.adapters import adapter_shapes
from runs.config.rules.language_config import AdapterConfig
from tests.unit.examples.test_grpo import batch, share_of_good
from tests.unit.rollouts.fleet.engine.small_models import small_config

ADAPTER = AdapterConfig(rank=2, alpha=4.0, target_modules=("q_proj", "v_proj", "down_proj"))
TOKENS = torch.tensor([[1, 2, 3, 4]])


def base() -> Transformer:
    torch.manual_seed(0)
    return Transformer(small_config(vocab_size=12, num_hidden_layers=1))


def adapted() -> AdaptedModel:
    return AdaptedModel(base(), ADAPTER)


def learner(model: AdaptedModel) -> Learner:
    return Learner(model, Settings(learning_rate=1e-2), seed=0)


def test_a_new_adapter_changes_nothing() -> None:
    assert torch.equal(adapted()(TOKENS), base()(TOKENS))
    assert isinstance(AdaptedModel.around(base(), AdapterConfig()), Transformer)


def test_its_tensors_are_those_that_workers_expect() -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in checkpoints.named_tensors(base())}

    published = published_tensors(adapted())

    assert {name: tuple(one.shape) for name, one in published.items()} == adapter_shapes(
        shapes, ADAPTER
    )


def test_only_the_adapter_learns() -> None:
    model = adapted()
    one = learner(model)
    before = share_of_good(one, batch())
    for step in range(10):
        one.learn(batch(sequences=32, seed=step))

    assert share_of_good(one, batch()) > before + 0.01
    assert all(
        torch.equal(tensor, first)
        for (_, tensor), (_, first) in zip(
            checkpoints.named_tensors(model.base), checkpoints.named_tensors(base()), strict=True
        )
    )


def test_a_trained_adapter_is_restored_and_merged(tmp_path: Path) -> None:
    model = adapted()
    one = learner(model)
    one.learn(batch(sequences=32))
    other = adapted()

    restore(other, published_tensors(model))
    CheckpointFolder(tmp_path).save(model, one.optimizer, AlphabetTokenizer("abcdefghijk"), step=3)

    expected = model(TOKENS)
    assert not torch.allclose(base()(TOKENS), expected)
    assert torch.equal(other(TOKENS), expected)
    assert torch.allclose(whole(model)(TOKENS), expected, atol=1e-6)
    assert torch.allclose(checkpoints.load(tmp_path)(TOKENS), expected, atol=1e-6)
    assert CheckpointFolder(tmp_path).restore(one.optimizer, step=3)


def test_an_adapter_of_another_shape_is_refused() -> None:
    published = published_tensors(AdaptedModel(base(), AdapterConfig(rank=3)))

    with pytest.raises(CheckpointUnreadable, match="lora_A"):
        restore(adapted(), published)

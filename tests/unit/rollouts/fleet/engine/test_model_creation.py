"""A run's configuration determines its model and tokenizer."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollouts.fleet.engine.building import build
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable, save
from rollouts.fleet.engine.tokenizers import TokenizerUnusable, save_tokenizer
from runs.config.rules.language_config import LanguageConfig
from tests.unit.rollouts.fleet.engine.small_models import small_model

SMALL = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "intermediate_size": 24,
    "max_position_embeddings": 32,
}


def language(*specs: str, **model: Any) -> LanguageConfig:
    raw = {
        "lessons": {f"lesson-{place}": {"spec": spec} for place, spec in enumerate(specs)},
        "model": SMALL | model,
    }
    return msgspec.convert(raw, LanguageConfig)


def test_a_new_model_has_a_token_for_each_character_of_its_lessons() -> None:
    model, tokenizer = build(language("task:sort", "task:addition"))

    assert tokenizer.decode(tokenizer.encode("12+34=46:")) == "12+34=46:"
    assert model.config.vocab_size == tokenizer.vocab_size == len("0123456789+=:") + 1
    assert (model.config.hidden_size, model.config.head_dim) == (16, 8)
    assert not model.training


def test_turns_follow_each_other_with_nothing_in_between() -> None:
    tokenizer = build(language("task:calculator")).tokenizer
    turns = [("user", "3*17;"), ("assistant", "?3*17"), ("user", "=51;")]

    shown = tokenizer.render([{"role": role, "content": text} for role, text in turns])

    assert shown == "3*17;?3*17=51;"


def test_the_byte_tokenizer_encodes_any_text() -> None:
    model, tokenizer = build(language("verifiers:maths", tokenizer="bytes"))

    assert tokenizer.encode("é") == list("é".encode())
    assert model.config.vocab_size == 257


def test_a_checkpoint_has_shapes_and_optionally_a_tokenizer(tmp_path: Path) -> None:
    mine = small_model()
    save(mine, tmp_path / "team" / "mine")
    own = build(language("task:sort")).tokenizer
    save_tokenizer(own, tmp_path / "team" / "mine")  # type: ignore[arg-type]

    for kind in ("alphabet", "checkpoint"):
        model, tokenizer = build(
            language("task:sort", checkpoint="team/mine", tokenizer=kind),
            checkpoints_folder=tmp_path,
        )
        assert model.embed.weight.equal(mine.embed.weight)
        assert tokenizer.encode("12") == own.encode("12")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"checkpoint": "none"}, "model.checkpoint: none does not exist on this machine"),
        (
            {"hidden_size": 17},
            "model.hidden_size: 17 must be an even multiple of num_attention_heads",
        ),
        (
            {"hidden_size": 10},
            "model.hidden_size: 10 must be an even multiple of num_attention_heads",
        ),
        (
            {"num_attention_heads": 4, "num_key_value_heads": 3},
            "model.num_key_value_heads: 3 does not divide num_attention_heads",
        ),
    ],
)
def test_an_invalid_model_is_refused(model: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointUnreadable, match=message):
        build(language("task:sort", **model))


@pytest.mark.parametrize(
    ("spec", "tokenizer", "message"),
    [
        ("verifiers:maths", "alphabet", "lessons.lesson-0.spec: verifiers:maths is unknown"),
        ("task:sort", "checkpoint", "model.tokenizer: 'checkpoint' requires model.checkpoint"),
    ],
)
def test_an_invalid_tokenizer_is_refused(spec: str, tokenizer: str, message: str) -> None:
    with pytest.raises(TokenizerUnusable, match=message):
        build(language(spec, tokenizer=tokenizer))


def test_a_checkpoint_with_too_few_tokens_is_refused(tmp_path: Path) -> None:
    save(small_model(vocab_size=4), tmp_path / "mine")

    with pytest.raises(TokenizerUnusable, match="the tokenizer has 12 tokens, the model only 4"):
        build(language("task:sort", checkpoint="mine"), checkpoints_folder=tmp_path)

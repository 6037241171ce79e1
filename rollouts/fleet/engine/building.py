"""Build the model and the tokenizer that a language run describes.

Workers and trainers build both from the run's configuration alone, so that weights fit and a
token means the same on either side.
"""

from pathlib import Path
from typing import NamedTuple

from rollouts.environments.rules.task_specs import InvalidTask, alphabet_of, make_task
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable
from rollouts.fleet.engine.tokenizers import (
    ByteTokenizer,
    CharTokenizer,
    ChatFormat,
    Tokenizer,
    TokenizerUnusable,
    check_fit,
    load_tokenizer,
)
from rollouts.fleet.engine.transformer import Transformer, TransformerConfig
from runs.core.language_config import LanguageConfig, ModelConfig

PLAIN = ChatFormat(system="{}", user="{}", assistant="{}")
"""Turns follow each other with nothing in between: tasks end their prompts themselves."""


class Built(NamedTuple):
    """What draws answers, and what turns them into text."""

    model: Transformer
    tokenizer: Tokenizer


def build(
    language: LanguageConfig, *, checkpoints_folder: Path | None = None, device: str = "cpu"
) -> Built:
    """Return the run's model, with random weights or its checkpoint's, and its tokenizer.

    Args:
        language: The run's.
        checkpoints_folder: Where this machine has the administrator's checkpoints; None for
            nowhere.
        device: Where the model goes.

    Raises:
        CheckpointUnreadable: If there is no such checkpoint here, or shapes contradict each
            other.
        TokenizerUnusable: If it cannot write the lessons, or has tokens that the model lacks.
    """
    folder = _folder_of(language.model, checkpoints_folder)
    tokenizer = _tokenizer_of(language, folder)
    if folder is None:
        model = Transformer(shapes_of(language.model, vocab_size=tokenizer.vocab_size)).to(device)
    else:
        model = checkpoints.load(folder, device=device)
    check_fit(tokenizer, vocab_size=model.config.vocab_size)
    return Built(model.eval(), tokenizer)


def tokenizer_for(language: LanguageConfig, *, checkpoints_folder: Path | None = None) -> Tokenizer:
    """Return the run's tokenizer alone, for those who generate elsewhere; see `build`."""
    return _tokenizer_of(language, _folder_of(language.model, checkpoints_folder))


def shapes_of(model: ModelConfig, *, vocab_size: int) -> TransformerConfig:
    """Return the shapes of a fresh model.

    Raises:
        CheckpointUnreadable: If the heads do not divide what they must.
    """
    head_dim, rest = divmod(model.hidden_size, model.num_attention_heads)
    if rest or head_dim % 2:
        raise CheckpointUnreadable(
            f"model.hidden_size: {model.hidden_size} is no even multiple of "
            f"{model.num_attention_heads} heads"
        )
    if model.num_attention_heads % model.num_key_value_heads:
        raise CheckpointUnreadable(
            f"model.num_key_value_heads: {model.num_key_value_heads} does not divide "
            f"{model.num_attention_heads} heads"
        )
    return TransformerConfig(
        vocab_size=vocab_size,
        hidden_size=model.hidden_size,
        num_hidden_layers=model.num_hidden_layers,
        num_attention_heads=model.num_attention_heads,
        num_key_value_heads=model.num_key_value_heads,
        intermediate_size=model.intermediate_size,
        max_position_embeddings=model.max_position_embeddings,
        head_dim=head_dim,
    )


def _folder_of(model: ModelConfig, root: Path | None) -> Path | None:
    if not model.checkpoint:
        return None
    folder = root / model.checkpoint if root is not None else None
    if folder is None or not (folder / "config.json").exists():
        raise CheckpointUnreadable(f"model.checkpoint: {model.checkpoint} is not on this machine")
    return folder


def _tokenizer_of(language: LanguageConfig, folder: Path | None) -> Tokenizer:
    kind = language.model.tokenizer
    if kind == "checkpoint":
        if folder is None:
            raise TokenizerUnusable("model.tokenizer: there is no checkpoint to take it from")
        return load_tokenizer(folder)
    return ByteTokenizer(PLAIN) if kind == "bytes" else CharTokenizer(_alphabet_of(language), PLAIN)


def _alphabet_of(language: LanguageConfig) -> str:
    tasks = []
    for name, lesson in language.lessons.items():
        try:
            tasks.append(make_task(lesson.spec, lesson.kwargs))
        except InvalidTask as error:
            raise TokenizerUnusable(
                f"lessons.{name}.{error}; an alphabet is that of tasks"
            ) from error
    return alphabet_of(tasks)

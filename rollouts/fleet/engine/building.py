"""Build the model and the tokenizer of a language run.

Workers and trainers build both from the run's configuration alone. Weights therefore fit, and token
ids have the same meaning on both sides.
"""

from pathlib import Path
from typing import NamedTuple

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
from rollouts.tasks.rules.task_specs import InvalidTask, alphabet_of, make_task
from runs.config.rules.language_config import LanguageConfig, ModelConfig

PLAIN = ChatFormat(system="{}", user="{}", assistant="{}")
"""Format without separators between turns; the prompts of tasks contain their own."""


class Built(NamedTuple):
    """Model and tokenizer of a run."""

    model: Transformer
    tokenizer: Tokenizer


def build(
    language: LanguageConfig, *, checkpoints_folder: Path | None = None, device: str = "cpu"
) -> Built:
    """Return the run's model, with random weights or its checkpoint's, and its tokenizer.

    Args:
        language: Language configuration of the run.
        checkpoints_folder: Folder with the administrator's checkpoints; None if there is none.
        device: Device of the model.

    Raises:
        CheckpointUnreadable: If this machine has no such checkpoint, or the shapes contradict
            each other.
        TokenizerUnusable: If it cannot encode the lessons, or has tokens that the model lacks.
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
    """Return only the run's tokenizer, for generation by another process; see `build`."""
    return _tokenizer_of(language, _folder_of(language.model, checkpoints_folder))


def shapes_of(model: ModelConfig, *, vocab_size: int) -> TransformerConfig:
    """Return the shapes of a new model.

    Raises:
        CheckpointUnreadable: If the sizes are not divisible as required.
    """
    head_dim, rest = divmod(model.hidden_size, model.num_attention_heads)
    if rest or head_dim % 2:
        raise CheckpointUnreadable(
            f"model.hidden_size: {model.hidden_size} must be an even multiple of "
            f"num_attention_heads ({model.num_attention_heads})"
        )
    if model.num_attention_heads % model.num_key_value_heads:
        raise CheckpointUnreadable(
            f"model.num_key_value_heads: {model.num_key_value_heads} does not divide "
            f"num_attention_heads ({model.num_attention_heads})"
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
        raise CheckpointUnreadable(
            f"model.checkpoint: {model.checkpoint} does not exist on this machine"
        )
    return folder


def _tokenizer_of(language: LanguageConfig, folder: Path | None) -> Tokenizer:
    kind = language.model.tokenizer
    if kind == "checkpoint":
        if folder is None:
            raise TokenizerUnusable("model.tokenizer: 'checkpoint' requires model.checkpoint")
        return load_tokenizer(folder)
    return ByteTokenizer(PLAIN) if kind == "bytes" else CharTokenizer(_alphabet_of(language), PLAIN)


def _alphabet_of(language: LanguageConfig) -> str:
    tasks = []
    for name, lesson in language.lessons.items():
        try:
            tasks.append(make_task(lesson.spec, lesson.kwargs))
        except InvalidTask as error:
            raise TokenizerUnusable(
                f"lessons.{name}.{error}; the tokenizer 'alphabet' supports only task: lessons"
            ) from error
    return alphabet_of(tasks)

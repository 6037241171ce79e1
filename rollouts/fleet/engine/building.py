"""Build the model and the tokenizer of a language run, and clone the behavior of demonstrations.

Reinforcement learning learns from the differences between answers to one prompt, so a model that
never succeeds cannot improve. A few hundred updates of supervised learning provide a start.

A small model forgets tasks that it does not see. Each batch is therefore three quarters tasks that
are not learnt yet, and one quarter all tasks in turn. Training ends when all succeed at once.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import nn

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable
from rollouts.fleet.engine.tokenizers import (
    AlphabetTokenizer,
    ByteTokenizer,
    ChatFormat,
    Tokenizer,
    TokenizerUnusable,
    check_fit,
    check_tokens,
    load_tokenizer,
)
from rollouts.fleet.engine.transformer import Transformer, TransformerConfig
from rollouts.tasks.rules.task import InvalidTask, Task, Turn, alphabet_of, examples, make_task
from runs.config.rules.language_config import LanguageConfig, ModelConfig

PLAIN = ChatFormat(system="{}", user="{}", assistant="{}")
"""Format without separators between turns; the prompts of tasks contain their own."""
UNTRAINED: Final = -100
BATCH: Final = 128
REHEARSED: Final = BATCH // 4
"""Number of demonstrations per batch that cover all tasks, learnt or not."""
LEARNING_RATE: Final = 2e-3
MOST_STEPS: Final = 1500


class Built(NamedTuple):
    """Model and tokenizer of a run."""

    model: Transformer
    tokenizer: Tokenizer


def build(
    language: LanguageConfig,
    *,
    checkpoints_folder: Path | None = None,
    checkpoint: Path | None = None,
    device: str = "cpu",
) -> Built:
    """Return the run's model, with random weights or its checkpoint's, and its tokenizer.

    Args:
        language: Language configuration of the run.
        checkpoints_folder: Folder with the administrator's checkpoints; None if there is none.
        checkpoint: Folder of a checkpoint in place of the run's.
        device: Device of the model.

    Raises:
        CheckpointUnreadable: If this machine has no such checkpoint, or the shapes contradict
            each other.
        TokenizerUnusable: If it cannot encode the lessons, or has tokens that the model lacks.
    """
    folder = checkpoint or _folder_of(language.model, checkpoints_folder)
    tokenizer = _tokenizer_of(language, folder)
    if folder is None:
        model = Transformer(shapes_of(language.model, vocab_size=tokenizer.vocab_size)).to(device)
    else:
        model = checkpoints.load(folder, device=device)
    check_vocabulary(language.model, tokenizer, vocab_size=model.config.vocab_size)
    return Built(model.eval(), tokenizer)


def tokenizer_for(
    language: LanguageConfig,
    *,
    checkpoints_folder: Path | None = None,
    checkpoint: Path | None = None,
) -> Tokenizer:
    """Return only the run's tokenizer, for generation by another process; see `build`."""
    return _tokenizer_of(language, checkpoint or _folder_of(language.model, checkpoints_folder))


def check_vocabulary(model: ModelConfig, tokenizer: Tokenizer, *, vocab_size: int) -> None:
    """Check that a model of `vocab_size` tokens was trained with the run's tokenizer.

    Raises:
        TokenizerUnusable: If the tokenizer has more tokens than the model, or is the alphabet of
            other lessons than the model's.
    """
    check_fit(tokenizer, vocab_size=vocab_size)
    if model.tokenizer == "alphabet" and tokenizer.vocab_size != vocab_size:
        raise TokenizerUnusable(
            f"model.tokenizer: the alphabet of these lessons has {tokenizer.vocab_size} tokens, "
            f"the model {vocab_size}: use the lessons that the model was trained on, or "
            "'checkpoint'"
        )


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
    if kind == "bytes":
        return ByteTokenizer(PLAIN)
    tasks = []
    for name, lesson in language.lessons.items():
        try:
            tasks.append(make_task(lesson.spec, lesson.kwargs))
        except InvalidTask as error:
            raise TokenizerUnusable(
                f"lessons.{name}.{error}; the tokenizer 'alphabet' supports only task: lessons"
            ) from error
    return AlphabetTokenizer(alphabet_of(tasks), PLAIN)


class Demonstration(NamedTuple):
    """A solved episode."""

    tokens: list[int]
    labels: list[int]
    """Labels like the tokens, -100 where the policy only reads."""


def demonstrate(task: Task, number: int, tokenizer: Tokenizer, *, seed: int) -> Demonstration:
    """Return the solved problem `number` of a task, each turn closed by the end token.

    Raises:
        TokenizerUnusable: If the tokenizer lacks a part of the problem.
    """
    [example] = examples(task, [number], mode="train", seed=seed)
    check_tokens(example.tokens, tokenizer)
    tokens, turns = list(example.tokens) or tokenizer.encode(example.prompt), []
    labels = [UNTRAINED] * len(tokens)
    for text in task.demonstrate(example):
        turns.append(Turn(text))
        answer = [*tokenizer.encode(text), tokenizer.end]
        reply = tokenizer.encode(task.reply(example, turns).text)
        tokens += answer + reply
        labels += answer + [UNTRAINED] * len(reply)
    return Demonstration(tokens, labels)


def clone_behavior(
    built: Built,
    tasks: Mapping[str, Task],
    *,
    seed: int,
    until_success: float = 0.6,
    most_steps: int = MOST_STEPS,
) -> dict[str, float]:
    """Train the model on demonstrations until all tasks reach `until_success` at once.

    Args:
        built: Model, changed in place, and its tokenizer.
        tasks: Tasks by any name.
        seed: Seed of the problems.
        until_success: Required share in [0, 1] of demonstrations that equal the greedy answer.
        most_steps: Maximum number of updates.

    Returns:
        Success rate of each task, as a running mean of its newest demonstrations.
    """
    model, tokenizer = built
    optimizer = torch.optim.Adam(model.train().parameters(), lr=LEARNING_RATE)
    success = dict.fromkeys(tasks, 0.0)
    for step in range(most_steps):
        left = [name for name in tasks if success[name] < until_success]
        if not left:
            break
        names = tasks_of_batch(step, every=list(tasks), left=left)
        shown = [
            demonstrate(tasks[name], step * BATCH + place, tokenizer, seed=seed)
            for place, name in enumerate(names)
        ]
        width = max(len(one.tokens) for one in shown)
        tokens = torch.tensor([one.tokens + [0] * (width - len(one.tokens)) for one in shown])
        labels = torch.tensor(
            [one.labels + [UNTRAINED] * (width - len(one.labels)) for one in shown]
        )
        logits, targets = model(tokens[:, :-1]), labels[:, 1:]
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), ignore_index=UNTRAINED
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # Whether each demonstration was the greedy answer before the update, [B].
        right = ((logits.argmax(-1) == targets) | (targets < 0)).all(dim=1).float()
        for name in set(names):
            seen = float(right[[place for place, one in enumerate(names) if one == name]].mean())
            success[name] += 0.1 * (seen - success[name])  # over about ten batches
    return success


def tasks_of_batch(step: int, *, every: Sequence[str], left: Sequence[str]) -> list[str]:
    """Return the tasks demonstrated in a batch.

    Args:
        step: Number of the batch; tasks rotate if there are more than places.
        every: All tasks.
        left: Tasks below the required success rate, at least one.

    Returns:
        ``[BATCH]`` names.
    """
    taught = BATCH - REHEARSED
    rehearsed = [every[(step * REHEARSED + place) % len(every)] for place in range(REHEARSED)]
    return rehearsed + [left[(step * taught + place) % len(left)] for place in range(taught)]

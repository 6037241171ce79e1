"""Let a fresh model imitate demonstrations of tasks, until it succeeds now and then.

Reinforcement learning learns from the differences between answers to one prompt: a model that
never succeeds has none. A few hundred updates of supervised learning give it a beginning.

A small model forgets what it is not shown, so every batch shows some of everything: most of what
is not learnt yet, and a quarter of all tasks in turn. It ends when all succeed at the same time.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from rollouts.environments.rules.task import Task, Turn, examples
from rollouts.fleet.engine.building import Built
from rollouts.fleet.engine.tokenizers import Tokenizer

UNTRAINED: Final = -100
BATCH: Final = 128
REHEARSED: Final = BATCH // 4
"""Demonstrations of a batch that show all tasks, whether learnt or not."""
LEARNING_RATE: Final = 2e-3
MOST_STEPS: Final = 1500


class Demonstration(NamedTuple):
    """An episode of somebody who can do it."""

    tokens: list[int]
    labels: list[int]
    """As tokens, -100 for what the policy only reads."""


def demonstrate(task: Task, number: int, tokenizer: Tokenizer, *, seed: int) -> Demonstration:
    """Return problem `number` of a task, solved, every turn closed by the end token."""
    [example] = examples(task, [number], mode="train", seed=seed)
    tokens, turns = tokenizer.encode(example.prompt), []
    labels = [UNTRAINED] * len(tokens)
    for text in task.demonstrate(example):
        turns.append(Turn(text))
        said = [*tokenizer.encode(text), tokenizer.end]
        heard = tokenizer.encode(task.reply(example, turns).text)
        tokens += said + heard
        labels += said + [UNTRAINED] * len(heard)
    return Demonstration(tokens, labels)


def imitate(
    built: Built,
    tasks: Mapping[str, Task],
    *,
    seed: int,
    until_success: float = 0.6,
    most_steps: int = MOST_STEPS,
) -> dict[str, float]:
    """Train the model on demonstrations until all tasks succeed as often as wanted, at once.

    Args:
        built: The model, changed in place, and its tokenizer.
        tasks: By any name.
        seed: Of the problems.
        until_success: Share of greedy answers in [0, 1]: all tokens of a demonstration are the
            likeliest ones.
        most_steps: Updates after which it ends in any case.

    Returns:
        How often each task succeeds, as a running mean of its newest demonstrations.
    """
    model, tokenizer = built
    optimizer = torch.optim.Adam(model.train().parameters(), lr=LEARNING_RATE)
    success = dict.fromkeys(tasks, 0.0)
    for step in range(most_steps):
        left = [name for name in tasks if success[name] < until_success]
        if not left:
            break
        names = shown_in(step, every=list(tasks), left=left)
        shown = [
            demonstrate(tasks[name], step * BATCH + place, tokenizer, seed=seed)
            for place, name in enumerate(names)
        ]
        right = _update(model, optimizer, *_padded(shown))
        for name in set(names):
            seen = float(right[[place for place, one in enumerate(names) if one == name]].mean())
            success[name] += 0.1 * (seen - success[name])  # over about ten batches
    return success


def shown_in(step: int, *, every: Sequence[str], left: Sequence[str]) -> list[str]:
    """Return whose demonstrations a batch shows.

    Args:
        step: Number of the batch: tasks take turns, should there be more than places.
        every: All tasks.
        left: Those that do not succeed as often as wanted, at least one.

    Returns:
        ``[BATCH]`` names.
    """
    taught = BATCH - REHEARSED
    rehearsed = [every[(step * REHEARSED + place) % len(every)] for place in range(REHEARSED)]
    return rehearsed + [left[(step * taught + place) % len(left)] for place in range(taught)]


def _update(
    model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor, labels: Tensor
) -> Tensor:
    """Take one step; return whose demonstration was the likeliest answer before it, ``[B]``."""
    logits, wanted = model(tokens[:, :-1]), labels[:, 1:]
    loss = nn.functional.cross_entropy(
        logits.flatten(0, 1), wanted.flatten(), ignore_index=UNTRAINED
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return ((logits.argmax(-1) == wanted) | (wanted < 0)).all(dim=1).float()


def _padded(shown: Sequence[Demonstration]) -> tuple[Tensor, Tensor]:
    width = max(len(one.tokens) for one in shown)
    tokens = [one.tokens + [0] * (width - len(one.tokens)) for one in shown]
    labels = [one.labels + [UNTRAINED] * (width - len(one.labels)) for one in shown]
    return torch.tensor(tokens), torch.tensor(labels)

"""Behavior cloning: train a new model on demonstrations of tasks until it sometimes succeeds.

Reinforcement learning learns from the differences between answers to one prompt, so a model that
never succeeds cannot improve. A few hundred updates of supervised learning provide a start.

A small model forgets tasks that it does not see. Each batch is therefore three quarters tasks that
are not learnt yet, and one quarter all tasks in turn. Training ends when all succeed at once.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from rollouts.fleet.engine.building import Built
from rollouts.fleet.engine.tokenizers import Tokenizer, check_tokens
from rollouts.tasks.rules.task import Task, Turn, examples

UNTRAINED: Final = -100
BATCH: Final = 128
REHEARSED: Final = BATCH // 4
"""Number of demonstrations per batch that cover all tasks, learnt or not."""
LEARNING_RATE: Final = 2e-3
MOST_STEPS: Final = 1500


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
        right = _update(model, optimizer, *_padded(shown))
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


def _update(
    model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor, labels: Tensor
) -> Tensor:
    """Run one update; return which demonstrations were the greedy answer before it, ``[B]``."""
    logits, targets = model(tokens[:, :-1]), labels[:, 1:]
    loss = nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=UNTRAINED
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return ((logits.argmax(-1) == targets) | (targets < 0)).all(dim=1).float()


def _padded(shown: Sequence[Demonstration]) -> tuple[Tensor, Tensor]:
    width = max(len(one.tokens) for one in shown)
    tokens = [one.tokens + [0] * (width - len(one.tokens)) for one in shown]
    labels = [one.labels + [UNTRAINED] * (width - len(one.labels)) for one in shown]
    return torch.tensor(tokens), torch.tensor(labels)

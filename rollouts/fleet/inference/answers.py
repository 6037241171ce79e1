"""Answers that a client derives from others, or in place of missing ones."""

from dataclasses import replace

from rollouts.fleet.engine.engine import Answer


def repeated(answer: Answer, index: int) -> Answer:
    """Return a copy of an answer under another index."""
    return replace(
        answer,
        index=index,
        tokens=[*answer.tokens],
        logprobs=[*answer.logprobs],
        versions=[*answer.versions],
    )


def cancelled(index: int) -> Answer:
    """Return an answer that was not generated."""
    return Answer(request=0, index=index, finish="cancelled")

"""What workers of a language run and the platform tell each other about lessons.

A worker asks what to do next (:class:`TaskRequest` → :class:`RolloutTask`), and tells how a batch
of rollouts ended (:class:`LessonOutcome`). Whatever is to be drawn derives from numbers in the
task, so a task that is given twice produces the same problems twice.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

EvalType = Literal["eval", "micro_eval"]
MOST_SAMPLES: Final = 16
Count = Annotated[int, Meta(ge=0)]
Finite = Annotated[float, Meta(ge=-1e30, le=1e30)]


class TaskRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/lessons/tasks``: a worker is free."""

    worker: Annotated[str, Meta(min_length=1, max_length=120)]
    """Name and incarnation, as in fragments: ``w0@4f2a``."""
    epoch: Count
    policy_step: Annotated[int, Meta(ge=-1)]
    """Version that the worker acts with."""


class RolloutTask(Struct, frozen=True, kw_only=True):
    """What a worker is to do next."""

    kind: Literal["train", "evaluate", "wait"]
    lesson: str = ""
    first_example: int = 0
    """Number of the first problem; the others follow it."""
    examples: int = 0
    generations: int = 0
    """Answers to each problem."""
    seed: int = 0
    """Of every draw of an answer, derived for this task alone; [0, 2³¹)."""
    evaluation: str = ""
    """Id of the leased evaluation, for `kind` evaluate."""
    fence: int = 0
    """Of the lease."""
    reason: str = ""
    """Why there is nothing to do, for `kind` wait: curriculum_complete, paused, …"""
    wait_seconds: float = 0.0
    """When to ask again, for `kind` wait."""


class Sample(Struct, frozen=True, kw_only=True):
    """One answer, for people to look at."""

    prompt: Annotated[str, Meta(max_length=4000)]
    response: Annotated[str, Meta(max_length=4000)]
    reward: Finite
    is_correct: bool


class LessonOutcome(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/lessons/{lesson}/outcomes``: how a task's rollouts ended.

    Problems stand in order and their answers beside each other: N = examples × generations.
    """

    key: Annotated[str, Meta(min_length=1, max_length=200)]
    """Unique for the task; a second time changes nothing."""
    worker: Annotated[str, Meta(min_length=1, max_length=120)]
    mode: Literal["train", "eval", "micro_eval"]
    epoch: Count
    policy_step: Annotated[int, Meta(ge=-1)]
    """Oldest version that drew any of it."""
    generations: Annotated[int, Meta(ge=1, le=1024)]
    rewards: Annotated[list[Finite], Meta(max_length=1 << 20)]
    """Of each episode, ``[N]``; empty where nothing valid came."""
    successes: Annotated[list[bool], Meta(max_length=1 << 20)]
    """``[N]``."""
    tokens: Count = 0
    """That the policy wrote."""
    truncated: Count = 0
    """Episodes cut at their longest length."""
    zero_variance_groups: Count = 0
    duplicates: Count = 0
    """Answers that equal an earlier one of their group."""
    seconds: float = 0.0
    evaluation: str = ""
    """Id of the leased evaluation, for mode eval."""
    fence: Count = 0
    error: Annotated[str, Meta(max_length=2000)] = ""
    """What kept the environment from giving any."""
    samples: Annotated[list[Sample], Meta(max_length=MOST_SAMPLES)] = []


class LeaseRenewal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/runs/{run}/evaluations/{evaluation}/lease``: it is still worked on."""

    fence: Count


class LeaseRenewed(Struct, frozen=True, kw_only=True):
    """The evaluation is the worker's for a while longer."""

    seconds: float
    """From now on, at least."""


class OutcomeReceipt(Struct, frozen=True, kw_only=True):
    """What the platform did with an outcome."""

    is_new: bool
    """False if the key was known."""
    changes: list[str] = []
    """Sentences: lessons that moved because of it."""

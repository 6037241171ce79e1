"""Schemas of the lessons API for pages; workers use :mod:`rolldeck.lessons`."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rolldeck.lessons import Sample
from rollouts.curriculum.rules import LEAST_FACTOR, MOST_FACTOR
from rollouts.lessons.rules.evaluation import EvaluationFigures, Interval
from web.http.bodies import Reason
from web.rules.pages import Page

Status = Literal["locked", "active", "graduated"]
Hold = Literal["", "locked", "active"]
"""Manual hold of a lesson; empty: the curriculum decides."""
LessonHold = Literal["", "locked", "active", "stopped"]
"""Hold of a lesson; `stopped`: a failure has stopped it by its setting."""


class LessonRequirement(Struct, frozen=True, kw_only=True):
    """A required lesson."""

    lesson: str
    min_success: float


class EvaluationRow(Struct, frozen=True, kw_only=True):
    """One evaluation of a lesson."""

    id: str
    lesson: str
    round: int
    state: Literal["queued", "leased", "done", "failed", "lost"]
    """`failed`: the environment yielded no valid rollouts; `lost`: its workers were lost."""
    epoch: int
    due_step: int
    """Version at which it was due."""
    policy_step: int
    """Evaluated version; −2 before the evaluation."""
    created_at: datetime
    finished_at: datetime | None
    worker: str
    attempts: int
    reason: str
    """Reason of its loss, or the error of the last attempt."""
    figures: EvaluationFigures | None
    pass_at: dict[int, Interval]
    """pass@k and its bounds, for each k up to the answers per problem; empty before the result."""
    samples: list[Sample]
    """Sample answers; only of the newest evaluations."""


class Evaluations(Page[EvaluationRow], frozen=True, kw_only=True):
    """Evaluations, newest first."""


class MicroEvaluationRow(Struct, frozen=True, kw_only=True):
    """A small evaluation of a lesson during training; it does not affect the curriculum."""

    id: int
    """Increases with each outcome of the run's lessons."""
    at: datetime
    epoch: int
    policy_step: int
    worker: str
    samples: int
    """Episodes; 0 if it failed."""
    successes: int
    success: Interval | None
    """Wilson bounds, with the number of episodes as sample size; null if it failed."""
    reward_mean: float | None
    error: str
    """Why it failed; empty otherwise."""
    answers: list[Sample]
    """At most 8 sample answers; only of the newest micro-evaluations."""


class MicroEvaluations(Page[MicroEvaluationRow], frozen=True, kw_only=True):
    """Micro-evaluations of a lesson, newest first, within the retention of outcomes."""


class EvaluationRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/evaluations``: a request to evaluate lessons now."""

    lessons: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(max_length=1000)] = []
    """Names; empty for all unlocked lessons."""
    reason: Reason = ""


class LessonSteering(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/v1/runs/{run}/lessons/{lesson}/steering``: manual control of a lesson.

    The defaults return it to the curriculum, also after a failure that has stopped it.
    """

    hold: Hold = ""
    weight_factor: Annotated[float, Meta(ge=LEAST_FACTOR, le=MOST_FACTOR)] = 1.0
    """Factor on the sampling probability set by the curriculum, relative to the other lessons."""
    reason: Reason = ""


class LessonRow(Struct, frozen=True, kw_only=True):
    """One lesson of a run. Shares are fractions, 0 to 1; null without data."""

    name: str
    spec: str
    requires: list[LessonRequirement]
    stop_success: float
    status: Status
    reason: str
    """Reason of its status as a sentence."""
    changed_at: datetime | None
    has_regressed: bool
    probability: float
    """Probability that the next training task is of this lesson."""
    hold: LessonHold
    weight_factor: float
    """Manual factor on the sampling probability set by the curriculum."""
    steered_by: str
    """User of the last steering, or `curriculum` for a stop; empty if there was none."""
    steered_reason: str
    steered_at: datetime | None
    unlock_rule: str
    """Unlock condition as a sentence; empty if it requires nothing or the strategy provides none.
    """
    success: float
    """Success rate as used by the strategy."""
    examples: int
    """Number of assigned problems."""
    pass_size: int
    """Problems of one pass, such as the rows of a data set; 0 if the lesson has no end."""
    samples: int
    """Number of training episodes."""
    zero_variance_share: float | None
    """Share of its groups."""
    truncated_share: float | None
    """Share of its episodes."""
    duplicate_share: float | None
    """Share of its episodes."""
    short_groups: Literal["drop", "shrink", "refill"]
    """Policy for groups of which rollouts fail or have no score."""
    failed: int
    """Training answers that failed or have no score."""
    refilled: int
    """Training answers that took the place of failed ones."""
    lost_siblings: int
    """Complete training answers of groups that were dropped because others failed."""
    tokens_mean: float | None
    """Tokens per episode generated by the policy."""
    errors: int
    last_error: str
    evaluation: EvaluationRow | None
    """The newest result, without its answers."""


class CurriculumSummary(Struct, frozen=True, kw_only=True):
    """State common to all lessons of a run."""

    revision: int
    """Incremented whenever a lesson changes."""
    strategy: str
    locked: int
    active: int
    graduated: int
    tasks: int
    """Number of assigned training tasks."""
    round: int
    """Number of the newest evaluation round."""
    evaluations_open: int
    completed_at: datetime | None
    entropy: float
    """Entropy of the sampling distribution, in nats."""
    effective_lessons: float
    mean_success: float | None
    """Mean over the active lessons."""
    steered: int
    """Number of lessons that a person holds or has given a sampling factor."""
    stopped: int
    """Number of lessons that a failure has stopped, by their setting."""
    awaited: list[str]
    """Workers that have not requested a task since the last steering."""


class Lessons(Page[LessonRow], frozen=True, kw_only=True):
    """The lessons of a run, in topological order of their requirements."""

    summary: CurriculumSummary


class LessonPass(Struct, frozen=True, kw_only=True):
    """A pass over the problems of a lesson; each problem of it is counted once."""

    number: int
    """From 0. A lesson without an end has only pass 0."""
    size: int
    """Problems of the pass; of a lesson without an end, those assigned so far."""
    unassigned: int
    leased: int
    """Problems that a worker samples, or has yet to deliver."""
    returned: int
    """Problems whose group was lost; they are assigned again before new ones."""
    answered: int
    """Problems whose group is in the buffer."""
    trained: int
    """Problems whose group was in an acknowledged batch."""
    skipped: dict[str, int]
    """Problems without a group in this pass, by reason."""


class LessonPasses(Page[LessonPass], frozen=True, kw_only=True):
    """Passes over a lesson, newest first."""


class LessonProblemRow(Struct, frozen=True, kw_only=True):
    """An assigned problem of a lesson."""

    number: int
    """From 0; a pass of n problems has n consecutive numbers."""
    pass_number: int
    state: Literal["leased", "returned", "answered", "trained", "skipped"]
    attempts: int
    """Number of times it was assigned; an epoch of the trainer begins with 0."""
    reason: str
    """Why its last group was lost, or why it is skipped; empty otherwise."""
    worker: str
    """Worker of the last attempt."""
    leased_at: datetime
    """Time of the last attempt."""
    group: int | None
    """Id of its newest group."""


class LessonProblems(Page[LessonProblemRow], frozen=True, kw_only=True):
    """Assigned problems of a lesson, in the order of their first assignment, newest first."""


class LessonChangeRow(Struct, frozen=True, kw_only=True):
    """A status change or steering of a lesson; a steering may leave the status unchanged."""

    id: int
    at: datetime
    lesson: str
    source: Status
    target: Status
    reason: str
    actor: str
    """`curriculum`, or the user who decided."""
    figures: dict[str, float]
    epoch: int
    policy_step: int


class LessonHistory(Page[LessonChangeRow], frozen=True, kw_only=True):
    """Status changes of lessons, newest first."""

"""Shape what pages are told of a run's lessons; workers speak :mod:`rolldeck.lessons`."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from rolldeck.lessons import Sample
from rollouts.curriculum.rules.evaluation import EvaluationFigures, Interval
from rollouts.curriculum.rules.steering import LEAST_FACTOR, MOST_FACTOR
from runs.wire import Reason

Status = Literal["locked", "active", "graduated"]
Hold = Literal["", "locked", "active"]
"""Where a person holds a lesson; empty: the curriculum decides."""


class LessonRequirement(Struct, frozen=True, kw_only=True):
    """A lesson that comes first."""

    lesson: str
    min_success: float


class EvaluationRow(Struct, frozen=True, kw_only=True):
    """One evaluation of a lesson."""

    id: str
    lesson: str
    round: int
    state: Literal["queued", "leased", "done", "lost"]
    epoch: int
    due_step: int
    """Version that it was due at."""
    policy_step: int
    """Version that was evaluated; −2 before that."""
    created_at: datetime
    finished_at: datetime | None
    worker: str
    attempts: int
    reason: str
    """Why it was lost."""
    figures: EvaluationFigures | None
    pass_at: dict[int, Interval]
    """pass@k and its bounds, for each k that the answers to a problem allow; empty before that."""
    samples: list[Sample]
    """Answers to look at; only of the newest evaluations."""


class Evaluations(Struct, frozen=True, kw_only=True):
    """Evaluations, newest first."""

    results: list[EvaluationRow]


class MicroEvaluationRow(Struct, frozen=True, kw_only=True):
    """A small look at a lesson beside its training; it moves nothing."""

    at: datetime
    epoch: int
    policy_step: int
    worker: str
    samples: int
    """Episodes."""
    successes: int
    success: Interval
    """Bounds by Wilson, as if the episodes were of as many problems."""


class MicroEvaluations(Struct, frozen=True, kw_only=True):
    """Micro-evaluations of a lesson, newest first, as far back as outcomes are kept."""

    results: list[MicroEvaluationRow]


class EvaluationRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/runs/{run}/evaluations``: a person wants lessons evaluated now."""

    lessons: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(max_length=1000)] = []
    """Names; empty for all that are unlocked."""
    reason: Reason = ""


class LessonSteering(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/runs/{run}/lessons/{lesson}/steering``: what a person wants of a lesson.

    The defaults give it back to the curriculum.
    """

    hold: Hold = ""
    weight_factor: Annotated[float, Meta(ge=LEAST_FACTOR, le=MOST_FACTOR)] = 1.0
    """How many times as often it is drawn as the curriculum says, beside the others."""
    reason: Reason = ""


class LessonRow(Struct, frozen=True, kw_only=True):
    """One lesson of a run. Shares are parts of the whole; null where nothing was counted."""

    name: str
    spec: str
    requires: list[LessonRequirement]
    stop_success: float
    status: Status
    reason: str
    """Why it is where it is, in a sentence."""
    changed_at: datetime | None
    has_regressed: bool
    probability: float
    """Of the next training task being of it."""
    hold: Hold
    weight_factor: float
    """How many times as often as the curriculum says a person wants it drawn."""
    steered_by: str
    """Who steered it last; empty if nobody ever did."""
    steered_reason: str
    steered_at: datetime | None
    unlock_rule: str
    """When the strategy unlocks it, in a sentence; empty where it requires nothing or the
    strategy does not say."""
    success: float
    """As the strategy sees it."""
    examples: int
    """Problems handed out."""
    samples: int
    """Episodes of training."""
    zero_variance_share: float | None
    """Of its groups."""
    truncated_share: float | None
    """Of its episodes."""
    duplicate_share: float | None
    """Of its episodes."""
    tokens_mean: float | None
    """Of an episode, written by the policy."""
    errors: int
    last_error: str
    evaluation: EvaluationRow | None
    """The newest result, without its answers."""


class CurriculumSummary(Struct, frozen=True, kw_only=True):
    """What a run's lessons have in common."""

    revision: int
    """Rises whenever something about a lesson changes."""
    strategy: str
    locked: int
    active: int
    graduated: int
    tasks: int
    """Training tasks handed out."""
    round: int
    """Of evaluations, the newest one."""
    evaluations_open: int
    completed_at: datetime | None
    entropy: float
    """Of the draw, in nats."""
    effective_lessons: float
    mean_success: float | None
    """Of the active lessons."""
    steered: int
    """Lessons that a person holds, or has drawn more or less often."""
    awaited: list[str]
    """Workers that have not asked for a task since a person last steered a lesson."""


class Lessons(Struct, frozen=True, kw_only=True):
    """The lessons of a run, none before what it requires."""

    summary: CurriculumSummary
    results: list[LessonRow]


class LessonChangeRow(Struct, frozen=True, kw_only=True):
    """A lesson that moved or was steered; then source and target may be alike."""

    id: int
    at: datetime
    lesson: str
    source: Status
    target: Status
    reason: str
    actor: str
    """Who decided: `curriculum`, or a person."""
    figures: dict[str, float]
    epoch: int
    policy_step: int


class LessonLine(Struct, frozen=True, kw_only=True):
    """What was sampled of a lesson in training, version by version: columns of equal length."""

    lesson: str
    step: list[int]
    """First version of each bucket in which it was sampled, rising."""
    samples: list[int]
    """Episodes."""
    successes: list[int]


class LessonProgress(Struct, frozen=True, kw_only=True):
    """How the training of lessons went in the present epoch, in buckets of versions."""

    epoch: int
    bucket: int
    """Versions of one bucket."""
    outcomes: int
    """Tasks that these figures are of."""
    is_whole: bool
    """Whether no task of the epoch that is kept was left out; else the newest are shown."""
    results: list[LessonLine]
    """In the order of the lessons, without those that were never sampled."""


class LessonHistory(Struct, frozen=True, kw_only=True):
    """Moves of lessons, newest first."""

    results: list[LessonChangeRow]

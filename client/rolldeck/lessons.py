"""Messages about lessons between the workers of a language run and the platform.

A worker requests its next task (:class:`TaskRequest` → :class:`RolloutTask`) and reports the
result of a batch of rollouts (:class:`LessonOutcome`). All random draws derive from numbers in the
task, so a repeated task yields the same problems.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

EvalType = Literal["eval", "micro_eval"]
MOST_SAMPLES: Final = 16
MOST_METRICS: Final = 64
MOST_SHORT_GROUPS: Final = 32
MOST_PROMPT: Final = 400
MOST_FAILURE_KINDS: Final = 32
METRIC_NAME: Final = r"^[\w./ -]{1,40}$"
Count = Annotated[int, Meta(ge=0)]
Finite = Annotated[float, Meta(ge=-1e30, le=1e30)]
FAILURE_KIND: Final = r"^[a-z_]{1,40}$"
FailureKind = Annotated[str, Meta(pattern=FAILURE_KIND)]
Message = Annotated[str, Meta(max_length=2000)]
LessonName = Annotated[str, Meta(max_length=64)]
ProblemNumber = Annotated[int, Meta(ge=0, lt=1 << 53)]
ProblemNumbers = Annotated[list[ProblemNumber], Meta(max_length=1 << 20)]
LostProblems = Annotated[dict[FailureKind, ProblemNumbers], Meta(max_length=MOST_FAILURE_KINDS)]
MetricName = Annotated[str, Meta(pattern=METRIC_NAME)]


class TaskRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/lessons/tasks``: request of an idle worker."""

    worker: Annotated[str, Meta(min_length=1, max_length=120)]
    """Name and incarnation, as in fragments: ``w0@4f2a``."""
    epoch: Count
    policy_step: Annotated[int, Meta(ge=-1)]
    """Current policy version of the worker."""
    held: dict[LessonName, ProblemNumbers] | None = None
    """Numbers of the leased problems that the worker samples or has yet to deliver, by lesson; its
    others are assigned again. Null: unknown."""


class RolloutTask(Struct, frozen=True, kw_only=True):
    """The next task of a worker."""

    kind: Literal["train", "evaluate", "wait"]
    lesson: str = ""
    first_example: int = 0
    """Number of the first problem; the others follow it."""
    examples: int = 0
    generations: int = 0
    """Answers per problem."""
    seed: int = 0
    """Seed of all answers, derived for this task alone; [0, 2³¹)."""
    attempt: int = 1
    """Number of times that the problems were assigned, for `kind` train."""
    evaluation: str = ""
    """Id of the leased evaluation, for `kind` evaluate."""
    fence: int = 0
    """Fence of the lease."""
    reason: str = ""
    """Reason for `kind` wait: curriculum_complete, paused, …"""
    wait_seconds: float = 0.0
    """Delay before the next request, for `kind` wait."""


class Sample(Struct, frozen=True, kw_only=True):
    """One answer for display."""

    prompt: Annotated[str, Meta(max_length=4000)]
    response: Annotated[str, Meta(max_length=4000)]
    reward: Finite
    is_correct: bool


class ShortGroup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of which rollouts failed or have no score; K rollouts are complete."""

    example: Annotated[str, Meta(max_length=200)]
    """Key of the problem."""
    prompt: Annotated[str, Meta(max_length=MOST_PROMPT)] = ""
    failed: Annotated[dict[FailureKind, Count], Meta(max_length=MOST_FAILURE_KINDS)]
    """Failed rollouts of the first attempt, by kind."""
    rewards: Annotated[list[Finite], Meta(max_length=1024)]
    """Rewards of the complete rollouts, ``[K]``, refilled ones last."""
    tokens: Annotated[list[Count], Meta(max_length=1024)]
    """Tokens that the policy wrote in each, ``[K]``."""
    refilled: Count = 0
    """Rollouts that took the place of failed ones."""
    is_kept: bool
    """Whether the group is trained on."""


class LessonOutcome(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``POST /api/v1/runs/{run}/lessons/{lesson}/outcomes``: results of a task.

    The answers are ordered by problem: N = examples × generations, or Σ `sizes`.
    """

    key: Annotated[str, Meta(min_length=1, max_length=200)]
    """Unique for the task; a repeated outcome changes nothing."""
    worker: Annotated[str, Meta(min_length=1, max_length=120)]
    mode: Literal["train", "eval", "micro_eval"]
    epoch: Count
    policy_step: Annotated[int, Meta(ge=-1)]
    """Oldest version that sampled any answer."""
    generations: Annotated[int, Meta(ge=1, le=1024)]
    sizes: Annotated[list[Annotated[int, Meta(ge=1, le=1024)]], Meta(max_length=1 << 20)] = []
    """Answers to each problem, for training; empty if there are `generations` to each."""
    rewards: Annotated[list[Finite], Meta(max_length=1 << 20)]
    """Reward of each episode, ``[N]``; empty without valid results."""
    successes: Annotated[list[bool], Meta(max_length=1 << 20)]
    """Success of each episode, ``[N]``."""
    tokens: Count = 0
    """Tokens written by the policy."""
    length_p95: Annotated[float, Meta(ge=0, le=1e9)] = 0.0
    """95th percentile of the tokens of an episode."""
    truncated: Count = 0
    """Episodes cut off at the maximum length."""
    zero_variance_groups: Count = 0
    duplicates: Count = 0
    """Answers equal to an earlier one of their group."""
    seconds: float = 0.0
    evaluation: str = ""
    """Id of the leased evaluation, for mode eval."""
    fence: Count = 0
    error: Message = ""
    """Error that kept the environment from yielding results."""
    failed: Annotated[dict[FailureKind, Count], Meta(max_length=MOST_FAILURE_KINDS)] = {}
    """Rollouts that failed or have no score, by kind, those of refills included."""
    errors: Annotated[dict[FailureKind, Message], Meta(max_length=MOST_FAILURE_KINDS)] = {}
    """Newest error of failed rollouts, or of the whole task, by kind."""
    refilled: Count = 0
    """Rollouts that took the place of failed ones."""
    lost_siblings: Count = 0
    """Complete rollouts of dropped groups."""
    lost_problems: LostProblems = {}
    """Numbers of the problems of a training task that have no group to train on, by reason."""
    pass_size: Count = 0
    """Problems of one pass over the lesson, as in the rows of a data set; 0 if it has no end."""
    short_groups: Annotated[list[ShortGroup], Meta(max_length=MOST_SHORT_GROUPS)] = []
    stops: bool = False
    """Whether the error stops the lesson for the run, by its setting."""
    samples: Annotated[list[Sample], Meta(max_length=MOST_SAMPLES)] = []
    metrics: Annotated[dict[MetricName, Finite], Meta(max_length=MOST_METRICS)] = {}
    """Metrics of the environment over this task."""


class LeaseRenewal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Body of ``PUT /api/v1/runs/{run}/evaluations/{evaluation}/lease``: extends the lease."""

    fence: Count


class LeaseRenewed(Struct, frozen=True, kw_only=True):
    """An extended lease of an evaluation."""

    seconds: float
    """Minimum remaining time of the lease."""


class OutcomeReceipt(Struct, frozen=True, kw_only=True):
    """Result of an outcome."""

    is_new: bool
    """False if the key was already known."""
    changes: list[str] = []
    """Sentences about lessons whose status changed."""

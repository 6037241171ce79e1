"""Contract of a tracker: the values of one run, in batches that it stores or refuses as a whole."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from typing import Any, ClassVar, Final, Protocol, Self

from rolldeck.errors import RolldeckError

ROLLOUT_COLUMNS: Final = (
    "id",
    "sequence",
    "mode",
    "time",
    "step",
    "environment",
    "score",
    "length",
    "text",
)


class TrackerError(RolldeckError):
    """The tracker did not store a batch, which may be sent again."""

    reason: ClassVar[str] = "tracker_failed"

    @classmethod
    def because(cls, tracker: str, detail: str) -> Self:
        """Return the error for a tracker and the reason."""
        return cls(status=0, code=cls.reason, detail=f"{tracker}: {detail}")


class TrackerRefusedError(TrackerError):
    """The tracker refuses a value or the credentials; a repetition would be refused too."""

    reason: ClassVar[str] = "tracker_refused"


@contextmanager
def errors_of(tracker: str) -> Iterator[None]:
    """Raise TrackerRefusedError for a bad value, TrackerError for other errors of a package."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise TrackerRefusedError.because(tracker, str(error)) from error
    except Exception as error:
        raise TrackerError.because(tracker, f"{type(error).__name__} {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedRun:
    """A run as trackers name it."""

    key: str
    """Unique and the same after a restart: letters, digits, `-` and `_`."""
    name: str
    project: str
    group: str | None
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value of a metric; `at` is in seconds since 1970, `value` may be NaN or infinite."""

    name: str
    step: int
    value: float
    at: float


@dataclass(frozen=True, slots=True)
class LifecycleEvent:
    """A change of the run, such as a pause; `at` is in seconds since 1970."""

    id: int
    kind: str
    """For changes of the status the new status, such as ``paused``; else the kind of the event."""
    at: float
    step: int
    """Train step of the last sample before it."""
    message: str
    level: str = "info"


@dataclass(frozen=True, slots=True)
class RolloutSample:
    """A sequence of a group, an answer of an evaluation, or a report of a step fleet's episodes."""

    id: str
    """Of the group, the evaluation or the report; unique among the samples of a mode."""
    sequence: int
    mode: str
    """``train``, ``eval`` or ``micro_eval``."""
    at: float
    step: int
    """Train step; of an evaluation, the evaluated version."""
    environment: str
    """Environment or lesson."""
    score: float | None
    length: float | None
    """Tokens, or env steps of an episode; None for answers of evaluations."""
    messages: Sequence[Mapping[str, str]]
    """Objects with `role` and `content`; empty if the platform has no text of the sample."""

    def text(self) -> str:
        """Return the messages as one text."""
        return "\n\n".join(f"{one['role']}: {one['content']}" for one in self.messages)

    def row(self) -> list[Any]:
        """Return the values of ROLLOUT_COLUMNS."""
        place = [self.id, self.sequence, self.mode, self.at, self.step, self.environment]
        return [*place, self.score, self.length, self.text()]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedBatch:
    """Values that a tracker stores together."""

    scalars: Sequence[Scalar] = ()
    events: Sequence[LifecycleEvent] = ()
    rollouts: Sequence[RolloutSample] = ()

    def __bool__(self) -> bool:
        return bool(self.scalars or self.events or self.rollouts)

    def rows(self) -> Iterator[tuple[int, float, dict[str, float]]]:
        """Yield step, time and values by name of scalars that were recorded together."""
        ordered = sorted(self.scalars, key=lambda one: (one.at, one.step))
        for (at, step), together in groupby(ordered, key=lambda one: (one.at, one.step)):
            row: dict[str, float] = {}
            for one in together:
                if one.name in row:
                    yield step, at, row
                    row = {}
                row[one.name] = one.value
            yield step, at, row


class Tracker(Protocol):
    """A tracking package, for one run.

    Every method raises TrackerRefusedError or TrackerError. A batch that failed is given again, so
    that some of its values may be stored twice where the package does not recognise them.
    """

    def start(self, run: TrackedRun) -> None:
        """Create the run, or continue it if an earlier process created it."""

    def record(self, batch: TrackedBatch) -> None:
        """Store a batch; return when an end of this process no longer loses it."""

    def finish(self, status: str) -> None:
        """End the run with its status: ``completed``, ``stopped`` or ``failed``."""

    def close(self) -> None:
        """Release all resources; the run can be continued."""


def imported(module: str, package: str) -> Any:
    """Import a module of a tracking package.

    Raises:
        TrackerRefusedError: If the package is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        detail = f"{error}; install it with: pip install {package}"
        raise TrackerRefusedError.because(package, detail) from error

"""API schemas of the Atropos routes, identical to the reference server's."""

from typing import Any, Literal

from msgspec import Struct

from buffer.ingest.schemas.groups import ScoredData


class Message(Struct, frozen=True, kw_only=True):
    """Greeting."""

    message: str


class RegisteredTrainer(Struct, frozen=True, kw_only=True):
    """Answer to ``POST /register``."""

    uuid: int


class RegisteredEnvironment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``POST /register-env``; only `status` until a trainer has started."""

    status: str
    env_id: int | None = None
    wandb_name: str | None = None
    checkpoint_dir: str | None = None
    starting_step: int | None = None
    checkpoint_interval: int | None = None
    num_steps: int | None = None


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``POST /disconnect-env``."""

    status: Literal["success", "failure"]
    error: str | None = None


class WandbNames(Struct, frozen=True, kw_only=True):
    """Answer to ``GET /wandb_info``."""

    group: str | None
    project: str | None


class RunSizes(Struct, frozen=True, kw_only=True):
    """Answer to ``GET /info``: sequences per batch, tokens per sequence; -1 before registration."""

    batch_size: int
    max_token_len: int


class RunState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``GET /status``: batches served, groups queued; `status` of a run that is over."""

    current_step: int
    queue_size: int
    status: Literal["completed", "stopped", "failed"] | None = None


class EnvironmentState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``/status-env``; sizes count groups of the environment's size.

    `paced` is present, and true, while the queue is over its tolerance: `queue_size` then
    leaves room for this environment's share only. `held` is present, and true, while the run is
    paused, draining or over: `queue_size` then leaves no room.
    """

    current_step: int
    queue_size: int
    unallocated_fraction: float
    self_queue_size: int
    max_group_size: int
    env_weight: float
    paced: bool = False
    held: bool = False


class PushAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to a push; buffer sizes count sequences that wait to complete a group."""

    status: Literal["received", "buffered"]
    dropped: dict[str, int] | None = None
    """Groups dropped on arrival, by reason."""
    buffer_size: int | None = None
    groups_processed: int | None = None
    buffered: int | None = None
    last_buffer_size: int | None = None


class LatestExample(ScoredData, frozen=True, kw_only=True):
    """Answer to ``GET /latest_example``; before the first group every field is an empty list."""

    generation_params: dict[str, Any] | list[Any] | None = None  # type: ignore[assignment]


class StockBatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Answer to ``GET /batch``; null while no batch is ready, an error before registration.

    `status` is present with null if the run is over, and no batch will follow.
    """

    batch: list[ScoredData] | None
    status: Literal["error", "completed", "stopped", "failed"] | None = None
    message: str | None = None


class HTTPValidationError(Struct, frozen=True, kw_only=True):
    """FastAPI's 422 answer: validation errors and their locations."""

    detail: list[dict[str, Any]]


class Detail(Struct, frozen=True, kw_only=True):
    """FastAPI's answer for all other errors."""

    detail: str

"""Schemas of the API of runs."""

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from web.http.bodies import Name, Reason
from web.rules.pages import Page

# Schemas of a run's notes.

LETTERS_AT_MOST: Final = 20_000


class Notes(Struct, frozen=True, kw_only=True):
    """The notes of a run."""

    text: str
    """Markdown; empty without notes."""
    revision: int
    """Number of edits; 0 before the first."""
    author: str
    at: datetime | None


class WriteNotes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """New text of the notes, and the revision that it is based on."""

    text: Annotated[str, Meta(max_length=LETTERS_AT_MOST)]
    revision: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    reason: Reason = ""


# Schemas of the API of this app.

ProjectName = Annotated[str, Meta(max_length=80)]
BatchSize = Annotated[int, Meta(ge=1, le=1 << 20)]


class RunSummary(Struct, frozen=True, kw_only=True):
    """A run without its configuration; versions are of the current epoch, times in UTC."""

    id: int
    uid: str
    """Immutable id, accepted in place of the name: ``run_`` and 24 hexadecimal digits."""
    name: str
    kind: Literal["fleet", "language", "outside"]
    status: Literal[
        "draft",
        "queued",
        "starting",
        "running",
        "paused",
        "draining",
        "completed",
        "stopped",
        "failed",
    ]
    status_reason: str
    status_changed_at: datetime
    started_at: datetime | None
    """Last start; null if never started."""
    drain_target: str
    drain_deadline_at: datetime | None
    preset: str
    """Name of the preset at creation; a preset that was renamed or deleted since keeps it."""
    created_by: str | None
    created_at: datetime
    archived_at: datetime | None
    is_default: bool
    batch_size: int | None
    max_token_len: int | None
    num_steps: int
    """Planned train steps, including those before the run; at most 0 for no plan."""
    ends_at_num_steps: bool
    """Whether the run completes after `num_steps` train steps."""
    num_workers: int | None
    """Requested rollout workers; null for a run without a fleet."""
    max_staleness: int | None
    max_age_seconds: float | None
    off_policy_tolerance: float
    exact_queue_size: bool
    lenient: bool
    lease_seconds: float
    dry_deadline_seconds: float | None
    advantages: Literal["", "rloo", "grpo"]
    drop_zero_variance: bool
    overlong_sequences: Literal["keep", "drop", "truncate"]
    unscored_sequences: Literal["refuse", "drop", "shrink"]
    least_group_size: int
    on_second_registration: Literal["keep", "reset"]
    served_steps: int
    epoch: int
    policy_step: int
    """Newest published version of the epoch; -2 for none yet."""
    ledger_problem: str
    """Problem found by the last audit of the ledger; empty when it balanced."""
    registered_at: datetime | None
    """Time of the first registration that set the run's settings."""
    trainer_started_at: datetime | None
    allowed_verbs: list[Literal["start", "pause", "resume", "drain", "stop", "kill"]]
    wandb_group: str | None
    wandb_project: str | None
    project: str | None
    """Name of its project."""
    project_uid: str | None
    """Immutable id of its project."""
    tags: list[str]


class RunInferenceServer(Struct, frozen=True, kw_only=True):
    """Inference server that a run names, as configured by the administrator."""

    kind: Literal["rolldeck", "vllm", "sglang"]
    port: int
    """Port of its URL."""


class RunDetail(RunSummary, frozen=True, kw_only=True):
    """A run with its configuration; empty for outside runs."""

    config: dict[str, Any]
    inference_server: RunInferenceServer | None
    """Server of `language.inference`; null without one, or if it is no longer configured."""


class CreateRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run to create; `config` overrides the preset, and `language` makes a language run.

    In a project, its default configuration is merged over the preset and under `config`.
    """

    name: Name
    kind: Literal["fleet", "outside"] = "fleet"
    project: ProjectName = ""
    """Name or id of the run's project; empty for none."""
    uses_project_defaults: bool = True
    """Whether the project's default preset, configuration and tags apply."""
    preset: Annotated[str, Meta(max_length=80)] | UnsetType = UNSET
    """Name or id of the run's preset; omitted for the default of the project."""
    config: dict[str, Any] = {}
    tags: Annotated[list[str], Meta(max_length=20)] | UnsetType = UNSET
    """Tags of the run; omitted for those of the project."""
    lenient: bool = False
    """Accept groups with inconsistent lengths or unknown environments, and record an event."""
    start: bool = False


class ChangeRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a run to change; those left out stay."""

    dry_deadline_seconds: Annotated[float, Meta(ge=0, le=604_800)] | UnsetType | None = UNSET
    """Time that a batch waits for an environment's minimum; null for no limit."""
    max_staleness: Annotated[int, Meta(ge=0, le=1 << 20)] | UnsetType | None = UNSET
    """Maximum number of versions between sampling and training; null for no limit."""
    max_age_seconds: Annotated[float, Meta(gt=0, le=1e9)] | UnsetType | None = UNSET
    """Maximum time an item may be queued; null for no limit."""
    off_policy_tolerance: Annotated[float, Meta(gt=0, le=1024)] | UnsetType = UNSET
    """Batches that may wait in the queue before producers pause."""
    exact_queue_size: bool | UnsetType = UNSET
    """Report the exact queue size to stock environments, even above the tolerance."""
    lease_seconds: Annotated[float, Meta(ge=1, le=86_400)] | UnsetType = UNSET
    """Time that a trainer may hold a batch."""
    batch_size: BatchSize | UnsetType = UNSET
    """Sequences per batch of an outside run."""
    lenient: bool | UnsetType = UNSET
    """Accept groups with inconsistent lengths or unknown environments, and record an event."""
    advantages: Literal["", "rloo", "grpo"] | UnsetType = UNSET
    """Rule that computes missing advantages of groups; empty for none."""
    drop_zero_variance: bool | UnsetType = UNSET
    """Drop incoming groups whose scores are all equal."""
    overlong_sequences: Literal["keep", "drop", "truncate"] | UnsetType = UNSET
    """Treatment of groups with a sequence longer than `max_token_len`."""
    unscored_sequences: Literal["refuse", "drop", "shrink"] | UnsetType = UNSET
    """Treatment of pushed groups with sequences whose score is null: refuse the push, drop the
    group, or accept it without them."""
    least_group_size: Annotated[int, Meta(ge=1, le=1024)] | UnsetType = UNSET
    """Smallest group that `shrink` accepts; smaller ones are dropped."""
    on_second_registration: Literal["keep", "reset"] | UnsetType = UNSET
    """Effect of a trainer's registration on an outside run that has a trainer: none, or archive the
    run and begin a new one of its name.
    """
    num_steps: Annotated[int, Meta(ge=1, le=1 << 31)] | UnsetType = UNSET
    """Planned train steps, including those before the run."""
    ends_at_num_steps: bool | UnsetType = UNSET
    """Drain and complete the run after `num_steps` train steps."""
    num_workers: Annotated[int, Meta(ge=1, le=4096)] | UnsetType = UNSET
    """Rollout workers; surplus ones send their data and exit."""
    project: Name | UnsetType | None = UNSET
    """Project of the run, which may have ended; null for none."""
    reason: Reason = ""
    """Reason, recorded in the run's history."""


class ActionReason(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason of an action."""

    reason: Reason = ""


class DeletionPreview(Struct, frozen=True, kw_only=True):
    """Amount that the deletion of a run would remove."""

    items: int
    """Groups or fragments that the run has accepted."""
    size_bytes: int
    """Of items, weights, recordings, archives and tensors."""
    refusal: str
    """Why the run cannot be deleted now; empty if it can."""


class DeletionRow(Struct, frozen=True, kw_only=True):
    """The deletion of a run, with its progress."""

    id: int
    run: str
    """Name of the deleted run; another run may have it since."""
    run_uid: str
    """Immutable id of the deleted run."""
    reason: str
    requested_by: str
    requested_at: datetime
    finished_at: datetime | None
    """Time at which all rows and bytes were removed; null until then."""
    items: int
    """Groups or fragments at the request."""
    size_bytes: int
    """Stored bytes at the request."""
    removed_items: int
    removed_rows: int
    """Removed rows of all tables."""
    removed_bytes: int
    problem: str
    """Why the removal waits; empty while it proceeds."""


class DeletionList(Page[DeletionRow], frozen=True, kw_only=True):
    """Deletions of runs, newest first."""


class ResetRun(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Reason for archiving an outside run and replacing it by a new one."""

    reason: Annotated[str, Meta(min_length=1, max_length=2000)]


class ChangeEnvironment(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of an environment to change; those left out stay."""

    weight: Annotated[float, Meta(ge=0, le=1e6)] | UnsetType = UNSET
    """Share of the batches, relative to the weights of the others."""
    min_batch_allocation: Annotated[float, Meta(ge=0, le=1)] | UnsetType | None = UNSET
    """Minimum share of every batch; null for none."""
    connected: bool | UnsetType = UNSET
    """Whether it counts as connected: otherwise it has no share and no minimum."""
    muted: bool | UnsetType = UNSET
    """Whether its future pushes are accepted, counted as dropped, and never trained on."""
    reason: Reason = ""


class PolicyVersionRow(Struct, frozen=True, kw_only=True):
    """A published version of the weights."""

    id: int
    epoch: int
    step: int
    sha256: str
    size_bytes: int
    published_at: datetime
    trainer: str | None
    has_file: bool
    """Whether the server still stores the file: only the newest are kept."""


class PolicyVersionList(Page[PolicyVersionRow], frozen=True, kw_only=True):
    """Published weights, newest first."""


class Preset(Struct, frozen=True, kw_only=True):
    """A configuration to start from."""

    name: str
    title: str
    config: dict[str, Any]


class RunConfigSchema(Struct, frozen=True, kw_only=True):
    """JSON Schema of a run's configuration, and the built-in presets."""

    schema: dict[str, Any]
    presets: list[Preset]


class Event(Struct, frozen=True, kw_only=True):
    """An event of a run."""

    id: int
    at: datetime
    kind: str
    level: Literal["info", "warning", "error"]
    actor: str
    message: str
    reason: str
    details: dict[str, Any]
    request_id: str
    """Id of the causing request; empty for actions of the platform."""


class EventList(Page[Event], frozen=True, kw_only=True):
    """Events, newest first."""


class RefusedPushes(Struct, frozen=True, kw_only=True):
    """Refused pushes of an environment, for one reason."""

    pushes: int
    newest_at: datetime
    message: str
    """Refusal message of the newest push."""
    groups: int = 0
    """Groups of these pushes, all of which are lost."""


class IgnoredNumbers(Struct, frozen=True, kw_only=True):
    """Numbers of an environment's groups that are in no series, of one problem."""

    values: int
    key: str
    """Key of the newest."""
    newest_at: datetime


class EnvironmentRow(Struct, frozen=True, kw_only=True):
    """A registered producer of data."""

    env_id: int
    desired_name: str
    wandb_name: str
    spec: str
    weight: float
    max_token_length: int
    group_size: int
    min_batch_allocation: float | None
    connected: bool
    muted: bool
    """Its pushes are counted as dropped, and batches do not wait for it."""
    refused: dict[str, RefusedPushes]
    """Refused pushes that named the environment, by reason; updated within seconds."""
    numbers: int
    """Number of its series of `info`, `metadata` and `overrides`, with those of its namesakes."""
    ignored_numbers: dict[str, IgnoredNumbers]
    """Values of these fields that are in no series, by problem."""
    held_at: datetime | None
    """Time at which a status first held it back, because the run is paused, draining or over; null
    while it may produce."""
    registered_at: datetime
    last_seen_at: datetime


class EnvironmentList(Page[EnvironmentRow], frozen=True, kw_only=True):
    """Environments in order of registration."""


class TrainerRow(Struct, frozen=True, kw_only=True):
    """A registered consumer of batches."""

    uuid: int
    name: str
    identity: str
    epoch: int
    registered_at: datetime
    last_seen_at: datetime


class TrainerList(Page[TrainerRow], frozen=True, kw_only=True):
    """Trainers in order of their first registration."""


class RegisterTrainer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A trainer that joins a run; `resume` keeps the current epoch."""

    name: Annotated[str, Meta(max_length=200)] = ""
    resume: bool = False
    batch_size: BatchSize | None = None
    """Sequences per batch, for an outside run without a batch size."""


class TrainerRegistered(Struct, frozen=True, kw_only=True):
    """Settings that a trainer needs to begin."""

    uuid: int
    epoch: int
    policy_step: int
    batch_size: int | None
    config: dict[str, Any]
    weights_directory: str = ""
    """Directory where the trainer writes its weights; empty if it uploads them."""


class Control(Struct, frozen=True, kw_only=True):
    """Control state of a run for rollout handlers; sizes count sequences or fragments."""

    desired: Literal["running", "paused", "draining", "stopped"]
    queue_size: int
    threshold: float
    policy_step: int
    epoch: int

"""API schemas of the deployment's parts."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from rollouts.control.schemas import MachineCordonRow

PartState = Literal["up", "down", "unknown", "absent"]


class Part(Struct, frozen=True, kw_only=True):
    """The status of a part at its last probe."""

    state: PartState
    """`unknown`: no answer in time. `absent`: not part of this deployment."""
    confirmed_at: datetime | None
    """Time of its last answer."""
    problem: str
    took_ms: float | None
    """Response time of its last answer, in milliseconds."""


class DatabasePart(Part, frozen=True, kw_only=True):
    """PostgreSQL, with the figures of its last answer."""

    address: str | None = None
    """For administrators only."""
    version: str | None = None
    connections: int | None = None
    connections_at_most: int | None = None
    active: int | None = None
    """Connections with a statement under way."""
    idle_in_transaction: int | None = None
    oldest_transaction_seconds: float | None = None
    """Null if none is open."""
    size_bytes: int | None = None
    """Null if the query timed out."""
    replicas: int | None = None


class BrokerPart(Part, frozen=True, kw_only=True):
    """Valkey or Redis, with the figures of its last answer."""

    address: str | None = None
    """For administrators only."""
    product: str | None = None
    version: str | None = None
    memory_bytes: int | None = None
    memory_at_most_bytes: int | None = None
    """Null if unlimited."""
    clients: int | None = None
    uptime_seconds: int | None = None
    waiting_jobs: int | None = None
    """Background jobs in the queue."""


class StoragePart(Part, frozen=True, kw_only=True):
    """The storage of payloads."""

    kind: Literal["files", "s3"]
    place: str | None = None
    """Folder or bucket, for administrators only."""
    free_bytes: int | None = None
    total_bytes: int | None = None
    keep_free_bytes: int
    """Pushes are rejected below this amount of free space."""
    kept_bytes: int | None = None
    """Payloads not yet deleted by retention, as of a few seconds ago."""


class RayNode(Struct, frozen=True, kw_only=True):
    """One node of the Ray cluster; used resources are those reserved by actors."""

    node: str
    host: str
    is_head: bool
    alive: bool
    cpus: float
    cpus_used: float
    gpus: float
    gpus_used: float
    memory_bytes: float
    memory_used_bytes: float
    object_store_bytes: float = 0.0
    object_store_used_bytes: float = 0.0


class RayPart(Part, frozen=True, kw_only=True):
    """The Ray cluster as of the last probe by a background job."""

    address: str | None = None
    """For administrators only."""
    nodes: list[RayNode] = []


class ProcessRow(Struct, frozen=True, kw_only=True):
    """A process of the deployment as of its last heartbeat."""

    name: str
    host: str
    pid: int | None
    started_at: datetime
    confirmed_at: datetime
    version: str
    memory_bytes: int | None


class PartExitRow(Struct, frozen=True, kw_only=True):
    """Exits of a part that `manage.py up` restarts, of the last day."""

    part: str
    host: str
    exits: int
    """Exits with less than an hour between them."""
    first_at: datetime
    last_at: datetime
    reason: str
    """Exit code or signal of the last exit, or why the part was ended."""
    log: str | None
    """Last lines of its log at that time, for administrators only."""


class NodeWorkers(Struct, frozen=True, kw_only=True):
    """Workers of one run on one node, as last reported."""

    node: str
    """Host name of the node."""
    node_id: str
    """Ray's id of the node; empty if not reported."""
    run: str
    run_uid: str
    """Immutable id of the run."""
    workers: int


class ActiveJob(Struct, frozen=True, kw_only=True):
    """A background job under way."""

    name: str
    started_at: datetime | None


class WorkerRow(ProcessRow, frozen=True, kw_only=True):
    """A process that runs background jobs."""

    queues: list[str]
    concurrency: int | None
    active: list[ActiveJob] | None
    """Null if the worker did not answer the last probe."""


class Cluster(Struct, frozen=True, kw_only=True):
    """All parts of the deployment."""

    at: datetime
    process_word_seconds: float
    """Interval of a process's heartbeats, in seconds."""
    web: list[ProcessRow]
    workers: list[WorkerRow]
    schedulers: list[ProcessRow]
    jobs: Part
    """Whether jobs run, and workers answer the broadcast."""
    exits: list[PartExitRow]
    """Parts that exited within a day, the last one first."""
    ray: RayPart
    database: DatabasePart
    broker: BrokerPart
    storage: StoragePart
    placements: list[NodeWorkers]
    """Workers by run and node."""
    cordons: list[MachineCordonRow]
    """Cordoned machines, including those that have left the cluster."""
    versions: dict[str, str]


class ServerInfo(Struct, frozen=True, kw_only=True):
    """Identity and sign-in options of the deployment."""

    version: str
    deployment: str
    """Name of the deployment; empty if it has none."""
    colour: Literal["info", "success", "warning", "danger"]
    auth: Literal["open", "required"]
    """With `required`, Atropos routes need credentials from the same machine too."""
    time_zone: str
    has_password: bool
    """Whether the caller is a person with a password, which they may change."""

"""Shape what the deck says of its parts."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from rollouts.control.schemas.machines import MachineCordonRow
from runs.wire.deck import Growth

PartState = Literal["up", "down", "unknown", "absent"]


class Part(Struct, frozen=True, kw_only=True):
    """How a part was found when it was last looked at."""

    state: PartState
    """`unknown`: it has not answered in time. `absent`: this deck has none."""
    proven_at: datetime | None
    """When it last answered."""
    problem: str
    took_ms: float | None
    """How long its last answer took."""


class TableRow(Struct, frozen=True, kw_only=True):
    """One of the largest tables, as PostgreSQL's own statistics have it."""

    name: str
    size_bytes: int
    """With its indexes and what lies outside of it."""
    live_rows: int
    dead_rows: int
    """Not yet cleaned away."""
    vacuumed_at: datetime | None
    """Null: not since the statistics began."""


class DatabasePart(Part, frozen=True, kw_only=True):
    """PostgreSQL; figures are those of its last answer."""

    address: str | None = None
    """For administrators."""
    version: str | None = None
    connections: int | None = None
    connections_at_most: int | None = None
    active: int | None = None
    """Connections with a statement under way."""
    idle_in_transaction: int | None = None
    oldest_transaction_seconds: float | None = None
    """Null: none is open."""
    size_bytes: int | None = None
    """Null: counting took too long."""
    replicas: int | None = None
    tables: list[TableRow] | None = None
    """The largest ones; null: this role may not ask, or it took too long, as below."""
    oldest_xmin_transactions: int | None = None
    """Transactions since the oldest one that keeps dead rows from being cleaned away."""
    wal_bytes: int | None = None
    """Write-ahead log on disk."""


class BrokerPart(Part, frozen=True, kw_only=True):
    """Valkey, or Redis; figures are those of its last answer."""

    address: str | None = None
    """For administrators."""
    product: str | None = None
    version: str | None = None
    memory_bytes: int | None = None
    memory_at_most_bytes: int | None = None
    """Null: without a limit."""
    clients: int | None = None
    uptime_seconds: int | None = None
    waiting_jobs: int | None = None
    """Background jobs that no worker has taken yet."""


class StoragePart(Part, frozen=True, kw_only=True):
    """Where payloads are kept."""

    kind: Literal["files", "s3"]
    place: str | None = None
    """Folder or bucket, for administrators."""
    free_bytes: int | None = None
    total_bytes: int | None = None
    keep_free_bytes: int
    """Below this pushes are refused."""
    kept_bytes: int | None = None
    """Payloads that retention has not let go, as of a few seconds ago."""


class RayNode(Struct, frozen=True, kw_only=True):
    """One node of the Ray cluster; what is used is what actors have reserved."""

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
    """The Ray cluster, as a job of the deck last saw it."""

    address: str | None = None
    """For administrators."""
    nodes: list[RayNode] = []


class ProcessRow(Struct, frozen=True, kw_only=True):
    """A process of the deck, by its own last word."""

    name: str
    host: str
    pid: int | None
    started_at: datetime
    proven_at: datetime
    version: str
    memory_bytes: int | None


class NodeWorkers(Struct, frozen=True, kw_only=True):
    """Workers of one run on one node, as they last said."""

    node: str
    """Its host."""
    node_id: str
    """As Ray calls it; empty where it did not say."""
    run: str
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
    """Null: it did not say so just now."""


class Cluster(Struct, frozen=True, kw_only=True):
    """Everything that the deck is made of."""

    at: datetime
    process_word_seconds: float
    """How often a process says that it lives."""
    web: list[ProcessRow]
    workers: list[WorkerRow]
    clocks: list[ProcessRow]
    jobs: Part
    """Whether workers answer when they are called."""
    ray: RayPart
    database: DatabasePart
    broker: BrokerPart
    storage: StoragePart
    placements: list[NodeWorkers]
    """Which run's workers are where."""
    cordons: list[MachineCordonRow]
    """Machines that shall be empty, those that have left the cluster included."""
    growth: Growth
    versions: dict[str, str]


class Deck(Struct, frozen=True, kw_only=True):
    """Which deck this is."""

    version: str
    deployment: str
    """Its name; empty for none."""
    colour: Literal["info", "success", "warning", "danger"]
    auth: Literal["open", "required"]
    """Whether the Atropos routes need credentials from this very machine, too."""
    time_zone: str
    password_address: str | None
    """Where this person changes the password; null where only an administrator can."""

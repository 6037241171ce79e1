"""Checks of a run's configuration before launch, and statistics of environments.

Each rule of a check returns findings as text. Measured inputs (an environment's spaces, the room on
the cluster, free bytes) are arguments.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import ClassVar, Final, Literal

from rollouts.fleet.manager.placement import NodeRoom, group_obstacle, obstacle
from runs.config.rules.run_config import RunConfig

Level = Literal["ok", "info", "warning", "error"]

BYTES_PER_STEP: Final = 27
"""Bytes per fragment step besides observation and action: reward, three flags, log-probability,
value, version and episode.
"""
BYTES_PER_TOKEN: Final = 14
"""Approximate bytes per token of a group: token, mask, log-probability and msgpack overhead."""

PARTNERS: Final = ("verifiers:", "openenv:")
"""Beginnings of the specs whose environment is a process or a server outside the worker."""
SHORTEST: Final = timedelta(minutes=1)
"""Shortest observation time for a rate: three groups in one second are not ten thousand an hour."""

Member = tuple[int, Sequence[int | None], Sequence[str | None]]
"""A run that uses an environment, with the indices of its environments and the names of its lessons
that do.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One result of a check."""

    level: Level
    subject: str
    """Subject of the check, in one or two words."""
    field: str
    """Dotted path of the setting in the configuration; empty for the run as a whole."""
    message: str
    remedy: str = ""
    """Action to take; empty if none is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """Free disk bytes, and the limits on them."""

    free_bytes: int
    kept_free_bytes: int
    """Free bytes below which the server accepts no data."""
    retention_bytes: int
    """Limit on retained payloads; 0 for no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """State of the cluster on which the fleet is to run."""

    nodes: Sequence[NodeRoom] = ()
    trouble: str = ""
    """Reason why the cluster's state is unknown."""


def partners(config: RunConfig) -> list[Finding]:
    """Name the lessons whose environment only workers construct."""
    lessons = {} if config.language is None else config.language.lessons
    return [
        Finding(
            level="info",
            subject="Environment",
            field=f"language.lessons.{name}.spec",
            message=f"{lesson.spec} was not constructed: only workers connect to its environment.",
        )
        for name, lesson in lessons.items()
        if lesson.spec.startswith(PARTNERS)
    ]


def batches(config: RunConfig) -> list[Finding]:
    """State the size of a train step."""
    size = config.buffer.batch_size
    if config.language is not None:
        sizes = config.language.group_sizes
        counts = " or ".join(f"{size // one:,} groups of {one}" for one in sizes)
        message = f"A train step takes {size:,} sequences: {counts}."
    else:
        steps, slots = size * config.fleet.fragment_length, config.fleet.slots
        share = f"{size / slots:.3g} fragments of each of {slots:,} slots"
        message = f"A train step takes {size:,} fragments, {steps:,} env steps: {share}."
    return [Finding(level="ok", subject="Batch", field="buffer.batch_size", message=message)]


def tokens(config: RunConfig) -> list[Finding]:
    """Check the number of tokens of a language run, and that its lessons fit its context."""
    language = config.language
    if language is None:
        return []
    context = language.model.max_position_embeddings
    found = []
    for name, lesson in language.lessons.items():
        longest = lesson.sampling.max_tokens
        if longest >= context:
            tight = Finding(
                level="error",
                subject="Tokens",
                field=f"language.lessons.{name}.sampling.max_tokens",
                message=f"Answers of {longest:,} tokens leave no room for the prompt in a context "
                f"of {context:,} tokens.",
                remedy="Use shorter answers, or a longer context.",
            )
            found.append(tight)
    most = config.buffer.batch_size * context
    return [
        *found,
        Finding(
            level="info",
            subject="Tokens",
            field="language.model.max_position_embeddings",
            message=f"At most {most:,} tokens per train step ({config.buffer.batch_size:,} × "
            f"{context:,}), {most * config.num_steps:,} in {config.num_steps:,} train steps.",
        ),
    ]


def fragment(config: RunConfig, *, push_bytes: int, most_bytes: int) -> Finding:
    """Check that the server accepts a fragment of the run's length, a push of `push_bytes`."""
    length = config.fleet.fragment_length
    message = f"A fragment of {length:,} steps takes {_bytes(push_bytes)}; the server accepts "
    message += f"{_bytes(most_bytes)} (max_body_bytes)."
    if push_bytes <= most_bytes:
        return Finding(
            level="ok", subject="Fragment", field="fleet.fragment_length", message=message
        )
    longest = length * most_bytes // push_bytes
    shorter = f"Lower fragment_length to {longest:,}, use" if longest else "Use"
    return Finding(
        level="error",
        subject="Fragment",
        field="fleet.fragment_length",
        message=message,
        remedy=f"{shorter} smaller observations (a wrapper, or uint8 instead of float32), or raise "
        "ROLLDECK_MAX_BODY_BYTES.",
    )


def disk(config: RunConfig, room: DiskRoom, *, bytes_per_step: int | None) -> list[Finding]:
    """Check that the disk has room for the run's payloads.

    `bytes_per_step` is the size of observation and action; None if no environment reported it.
    """
    if config.language is not None:
        item = config.language.model.max_position_embeddings * BYTES_PER_TOKEN
    elif bytes_per_step is not None:
        item = config.fleet.fragment_length * (bytes_per_step + BYTES_PER_STEP)
    else:
        return []
    total = item * config.buffer.batch_size * config.num_steps
    kept = min(total, room.retention_bytes) if room.retention_bytes else total
    usable = max(0, room.free_bytes - room.kept_free_bytes)
    unit = "sequence" if config.language else "fragment"
    message = (
        f"About {_bytes(item)} per {unit}, {_bytes(total)} in {config.num_steps:,} train steps; "
        f"retention keeps {_bytes(kept)} of it, and {_bytes(usable)} of disk are usable."
    )
    if kept <= usable:
        return [Finding(level="ok", subject="Disk", field="num_steps", message=message)]
    remedy = "Free disk space, or lower ROLLDECK_RETENTION_BYTES."
    return [
        Finding(level="warning", subject="Disk", field="num_steps", message=message, remedy=remedy)
    ]


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:,.3g} TB"


def room(config: RunConfig, cluster: Cluster) -> list[Finding]:
    """Check that the cluster has room for the fleet's workers, now and when idle."""
    fleet = config.fleet
    if cluster.trouble:
        return [
            Finding(
                level="warning",
                subject="Cluster",
                field="fleet.num_workers",
                message=f"The cluster could not be checked: {cluster.trouble}.",
                remedy="A run launched now waits until a cluster responds.",
            )
        ]
    required, workers = fleet.worker_resources, fleet.num_workers
    emptied = [NodeRoom(total=node.total, free=node.total) for node in cluster.nodes]
    never = group_obstacle(required, emptied, workers=workers)
    if never:
        some_run = fleet.placement == "auto" and not obstacle(required, emptied)
        return [_placement_finding("warning" if some_run else "error", never, config)]
    busy = group_obstacle(required, cluster.nodes, workers=workers)
    if busy:
        return [_placement_finding("warning", f"{busy}; other work must end first", config)]
    has = f"{len(cluster.nodes)} {'node' if len(cluster.nodes) == 1 else 'nodes'}"
    return [
        Finding(
            level="ok",
            subject="Cluster",
            field="fleet.num_workers",
            message=f"{workers:,} of {workers:,} workers fit on {has} now.",
        )
    ]


def _placement_finding(level: Level, why: str, config: RunConfig) -> Finding:
    gpus = config.fleet.num_gpus_per_worker
    return Finding(
        level=level,
        subject="Cluster",
        field="fleet.num_gpus_per_worker" if gpus and "GPU" in why else "fleet.num_workers",
        message=f"{why[:1].upper()}{why[1:]}.",
        remedy="Use fewer workers, reserve less for each, or add nodes to the cluster.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Newest data of one environment, or one lesson, of one run. Counts are groups or episodes."""

    run_id: int
    env_id: int | None
    lesson: str | None
    recent: int
    """Number that arrived within :attr:`Figures.WINDOW`."""
    oldest_at: datetime
    reward_sum: Fraction
    """Exact, because the sum of two finite scores may be no finite float."""
    rewarded: int
    """Number with a finite reward."""
    groups: int
    """0 for a fleet that steps the environment."""
    equal: int
    """Of these, the groups whose scores are all equal, which includes those of one sequence."""
    is_cut: bool
    """Whether the data of this run was truncated at a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Statistics of an environment; None where no data exists."""

    WINDOW: ClassVar[timedelta] = timedelta(hours=1)

    per_hour: float | None
    reward_mean: float | None
    zero_variance_share: float | None
    examined: int


def figures_of(samples: Iterable[Sample], *, members: Sequence[Member], now: datetime) -> Figures:
    """Return the statistics of the environment that is `members` of these runs.

    Means and shares weight each group (or episode) equally, regardless of its run; rates of runs
    are summed.
    """
    all_samples = list(samples)
    # Beginning of the observed data of each run.
    began: dict[int, datetime] = {}
    for sample in all_samples:
        before = began.get(sample.run_id, sample.oldest_at)
        began[sample.run_id] = min(before, sample.oldest_at)
    mine = [sample for sample in all_samples if any(_is_of(sample, member) for member in members)]
    per_hour = 0.0
    for sample in mine:
        # A rate over the window, or over the observed time if that is shorter.
        seen = Figures.WINDOW
        if sample.is_cut:
            seen = max(min(now - began[sample.run_id], seen), SHORTEST)
        per_hour += sample.recent * (timedelta(hours=1) / seen)
    rewarded = sum(sample.rewarded for sample in mine)
    groups = sum(sample.groups for sample in mine)
    return Figures(
        per_hour=per_hour if mine else None,
        reward_mean=float(sum(sample.reward_sum for sample in mine) / rewarded)
        if rewarded
        else None,
        zero_variance_share=sum(sample.equal for sample in mine) / groups if groups else None,
        examined=rewarded,
    )


def _is_of(sample: Sample, member: Member) -> bool:
    """Return whether a sample belongs to a member; a member without parts covers the entire run."""
    run_id, env_ids, lessons = member
    return (
        sample.run_id == run_id
        and _covers(env_ids, sample.env_id)
        and _covers(lessons, sample.lesson)
    )


def _covers(names: Sequence[int | None] | Sequence[str | None], name: int | str | None) -> bool:
    return all(each is None for each in names) or name in names

"""Sections of a run configuration: replay, buffer, environment and policy."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from rolldeck.fleet_wire import (
    INFO_KEYS_AT_MOST,
    INFO_NAME_LENGTH,
    INFO_NAME_PATTERN,
    INFO_NAMES_RESERVED,
)
from runs.config.rules.config_field import NO_LANGUAGE, applicable, described, none_of, one_of

# Short-group policies of a language run, read from its configuration without validation.

SMALLEST_GROUP: Final = 2


def least_group_size(config: Mapping[str, Any]) -> int:
    """Return the smallest group that the policy `shrink` keeps."""
    language = config.get("language") or {}
    return int(language.get("least_group_size") or SMALLEST_GROUP)


def shrinks(config: Mapping[str, Any]) -> bool:
    """Return whether groups of a language run may be smaller than their group size."""
    language = config.get("language") or {}
    lessons = (language.get("lessons") or {}).values()
    own = [one.get("short_groups") or language.get("short_groups") for one in lessons]
    return "shrink" in own


def largest_group(config: Mapping[str, Any]) -> int:
    """Return the largest group size of a language run."""
    language = config.get("language") or {}
    lessons = (language.get("lessons") or {}).values()
    return max(
        (one.get("group_size") or language.get("group_size", 1) for one in lessons), default=1
    )


# Replay settings of a fleet run: the sampler, its weights and its capacity.

Sampler = Literal["fifo", "uniform", "recency", "balanced", "weighted", "prioritized"]
MAX_FRAGMENTS_PER_CHUNK: Final = 256


class ReplayConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Replay settings. The defaults form a queue: oldest first, each fragment once."""

    sampler: Annotated[
        Sampler,
        described(
            "Sampler",
            "fifo: the oldest. uniform: any. recency: newer ones more often. balanced: equally "
            "from each environment. weighted, prioritized: by the trainer's priorities.",
        ),
    ] = "fifo"
    alpha: Annotated[
        float,
        described(
            "Alpha",
            "Exponent of recency or priority; 0 is uniform.",
            when=(one_of("buffer.replay.sampler", "recency", "prioritized"),),
            ge=0,
            le=16,
        ),
    ] = 0.6
    beta: Annotated[
        float,
        described(
            "Beta",
            "Exponent of the importance weights; 1 corrects the bias of sampling fully.",
            when=(one_of("buffer.replay.sampler", "prioritized"),),
            ge=0,
            le=1,
        ),
    ] = 0.4
    max_reuse: Annotated[
        int,
        described(
            "Maximum reuse",
            "Maximum number of batches that contain the same chunk.",
            ge=1,
            le=1 << 20,
        ),
    ] = 1
    fragments_per_chunk: Annotated[
        int,
        described(
            "Chunk length",
            "Consecutive fragments of one env slot that are sampled together.",
            unit="fragments",
            ge=1,
            le=MAX_FRAGMENTS_PER_CHUNK,
        ),
    ] = 1
    max_chunks: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        described(
            "Capacity",
            "Maximum number of stored chunks; the oldest are evicted. Empty for no limit.",
            unit="chunks",
        ),
    ] = None
    max_chunks_per_environment: Annotated[
        Annotated[int, Meta(ge=1, le=10_000_000)] | None,
        described(
            "Capacity per environment",
            "Maximum number of stored chunks of each environment. Empty for no limit.",
            unit="chunks",
        ),
    ] = None

    @property
    def is_queue(self) -> bool:
        """Whether every fragment is served once, alone and in order."""
        return self.sampler == "fifo" and self.max_reuse == 1 and self.fragments_per_chunk == 1


_DEFAULTS: Final = ReplayConfig()


def replay_of(config: dict[str, Any]) -> ReplayConfig:
    """Return the replay settings of a stored run configuration (parsed or empty)."""
    raw = config.get("buffer", {}).get("replay")
    return _DEFAULTS if raw is None else msgspec.convert(raw, ReplayConfig)


def contradictions(replay: ReplayConfig, *, batch_size: int) -> Iterator[tuple[str, str]]:
    """Return each field that makes batches of `batch_size` fragments impossible, and the reason."""
    length = replay.fragments_per_chunk
    if batch_size % length:
        yield "fragments_per_chunk", f"batch_size {batch_size} must be a multiple of {length}"
    if replay.max_chunks is not None and replay.max_chunks * length < batch_size:
        yield "max_chunks", f"must be at least {batch_size // length}, the chunks of one batch"


def admission_shortage(
    *,
    slots: int,
    length: int,
    batch_size: int,
    max_staleness: int | None,
    off_policy_tolerance: float,
) -> str | None:
    """Return why the admission limit of a step fleet can prevent every batch, or None.

    At worst each env slot holds an incomplete chunk of `length` − 1 fragments, while the queue
    lacks one chunk of a batch. A further fragment completes that batch, so it must be admitted.

    Args:
        slots: Env slots of the fleet.
        length: Fragments per chunk.
        batch_size: Fragments per batch, a multiple of `length`.
        max_staleness: Maximum number of versions behind; None for no limit.
        off_policy_tolerance: Batches ahead of training where staleness has no limit.
    """
    held = slots * (length - 1) + batch_size - length
    needed = held + 1
    if max_staleness is not None:
        limit, ahead = "(max_staleness + 1)", float(max_staleness + 1)
        remedy = f"max_staleness to {ceil(needed / batch_size) - 1} or more"
    else:
        limit, ahead = "off_policy_tolerance", off_policy_tolerance
        remedy = f"off_policy_tolerance to {ceil(100 * needed / batch_size) / 100:g} or more"
    admitted = int(ahead * batch_size)
    if admitted >= needed:
        return None
    if length == 1:
        return f"{limit} · batch_size admits {admitted:,} of {batch_size:,} fragments: set {remedy}"
    return (
        f"incomplete chunks of {slots:,} env slots and an incomplete batch can hold {held:,} "
        f"fragments, but {limit} · batch_size admits {admitted:,}, so that no batch is ever "
        f"complete: set {remedy}, or lower num_workers or envs_per_worker"
    )


# Buffer settings of a run: batch size, staleness and leases.


class BufferConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Batch size, staleness limit and lease duration of a run."""

    batch_size: Annotated[
        int,
        described(
            "Batch size",
            "Fragments one train step consumes.",
            unit="fragments",
            essential=True,
            ge=1,
            le=1 << 20,
        ),
    ] = 16
    max_staleness: Annotated[
        int,
        described(
            "Maximum staleness",
            "Maximum number of policy versions between sampling and training.",
            unit="versions",
            essential=True,
            ge=0,
            le=1024,
        ),
    ] = 1
    off_policy_tolerance: Annotated[
        float,
        described(
            "Off-policy tolerance",
            "Batches that may wait in the queue before producers pause.",
            unit="batches",
            gt=0,
            le=1024,
        ),
    ] = 3.0
    lease_seconds: Annotated[
        float,
        described("Lease", "Time that a trainer may hold a batch.", unit="s", ge=1, le=86_400),
    ] = 60.0
    replay: Annotated[ReplayConfig, applicable(NO_LANGUAGE)] = ReplayConfig()


# Environment settings of a run.


class ExtensionConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A registered wrapper or callback and its arguments."""

    kind: Annotated[str, described("Kind", "A registered name.", min_length=1, max_length=200)]
    kwargs: Annotated[
        dict[str, Any], described("Arguments", "Keyword arguments.", max_length=50)
    ] = {}


class EnvironmentConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The environment that the fleet steps."""

    spec: Annotated[
        str,
        described(
            "Environment",
            "A registered environment, as gymnasium:<id> or rolldeck:<id>.",
            essential=True,
            pattern=r"^[a-z_]+:[\w./:-]{1,120}$",
        ),
    ] = "gymnasium:CartPole-v1"
    kwargs: Annotated[
        dict[str, Any],
        described("Arguments", "Keyword arguments for the environment.", essential=True),
    ] = {}
    wrappers: Annotated[
        list[ExtensionConfig],
        described(
            "Wrappers", "Registered wrappers of the environment, innermost first.", max_length=16
        ),
    ] = []
    callbacks: Annotated[
        list[ExtensionConfig],
        described(
            "Callbacks",
            "Registered callbacks that may change observations, actions, rewards and info.",
            max_length=16,
        ),
    ] = []
    step_callbacks: Annotated[
        list[ExtensionConfig],
        described(
            "Step callbacks",
            "Registered callbacks that take every env step in the workers.",
            max_length=16,
        ),
    ] = []
    info: Annotated[
        list[
            Annotated[
                str, Meta(min_length=1, max_length=INFO_NAME_LENGTH, pattern=INFO_NAME_PATTERN)
            ]
        ],
        described(
            "Values of info",
            "Keys of info whose number is stored with each step as info.<key>; a dot leads into a "
            "dict: episode.r.",
            max_length=INFO_KEYS_AT_MOST,
        ),
    ] = []
    restart_interval_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        described(
            "Restart interval",
            "Restart an environment's process between episodes after this long; empty for never.",
            unit="s",
        ),
    ] = None
    hung_after_seconds: Annotated[
        float,
        described(
            "Hung after",
            "Replace an environment's process that does not respond for this long.",
            unit="s",
            gt=0,
            le=86_400,
        ),
    ] = 120.0


def invalid_info_keys(keys: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Return the position of each key of `info` that can have no value, and the reason."""
    for position, key in enumerate(keys):
        parts = key.split(".")
        if key in keys[:position]:
            yield position, f"{key!r} is listed twice"
        elif not all(parts) or key != key.strip():
            yield position, f"{key!r} has an empty part, or begins or ends with a space"
        elif found := INFO_NAMES_RESERVED.intersection(parts):
            yield position, f"{min(found)} is reserved; name the keys of the last info themselves"
        elif any(part.startswith("_") for part in parts):
            yield position, f"{key!r}: names that begin with _ are ignored"


# Policy settings of a run, shared by fleet and trainer.


class PolicyConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The policy network that fleet and trainer use."""

    kind: Annotated[
        str,
        described(
            "Policy",
            "Network: mlp; cnn for images; gru with memory, for any observations; or a registered "
            "policy.",
            essential=True,
            min_length=1,
            max_length=200,
        ),
    ] = "mlp"
    kwargs: Annotated[
        dict[str, Any],
        described(
            "Policy arguments",
            "Keyword arguments of a registered policy.",
            when=(none_of("policy.kind", "mlp", "cnn", "gru"),),
            max_length=50,
        ),
    ] = {}
    hidden_sizes: Annotated[
        list[Annotated[int, Meta(ge=1, le=8192)]],
        described(
            "Hidden layers",
            "Units of each hidden layer; for a gru, of the layers before its memory.",
            essential=True,
            when=(one_of("policy.kind", "mlp", "cnn", "gru"),),
            min_length=1,
            max_length=8,
        ),
    ] = msgspec.field(default_factory=lambda: [64, 64])
    recurrent_units: Annotated[
        int,
        described(
            "Recurrent units",
            "Units of a gru's memory.",
            when=(one_of("policy.kind", "gru"),),
            ge=1,
            le=8192,
        ),
    ] = 128
    channels: Annotated[
        list[Annotated[int, Meta(ge=1, le=1024)]],
        described(
            "Channels",
            "Channels of each convolution; each one halves the image size.",
            when=(one_of("policy.kind", "cnn", "gru"),),
            min_length=1,
            max_length=8,
        ),
    ] = msgspec.field(default_factory=lambda: [16, 32, 32])
    precision: Annotated[
        Literal["float32", "bfloat16", "float16"],
        described(
            "Precision",
            "Number type in which the network computes an inference. Actions, log probabilities, "
            "values and states are float32. float16 needs a GPU.",
        ),
    ] = "float32"
    hung_after_seconds: Annotated[
        float,
        described(
            "Policy hung after",
            "Replace a worker whose policy does not return from a call for this long.",
            unit="s",
            gt=0,
            le=86_400,
        ),
    ] = 120.0


# Search terms of a run's environments.

LONGEST_WORD = 220


def search_terms(names: Iterable[str]) -> list[str]:
    """Return the names in lower case, each with and without the part before its colon."""
    whole = {name.lower() for name in names if name}
    parts = {name.rpartition(":")[2] for name in whole}
    return sorted(word[:LONGEST_WORD] for word in whole | parts if word)


def specs_in(config: dict[str, Any]) -> list[str]:
    """Return the environments of a run configuration: its own, or those of its lessons."""
    language = config.get("language")
    if not language:
        return [str(config.get("environment", {}).get("spec", ""))]
    return [str(lesson.get("spec", "")) for lesson in language.get("lessons", {}).values()]


def names_in(config: dict[str, Any]) -> list[str]:
    """Return the environments of a run configuration, preceded by the names of its lessons."""
    language = config.get("language") or {}
    return [*language.get("lessons", {}), *specs_in(config)]

"""Buffer settings of a run: batch size, staleness and leases."""

from typing import Annotated

from msgspec import Struct

from runs.config.rules.config_field import NO_LANGUAGE, applicable
from runs.config.rules.config_field import described as _field
from runs.config.rules.replay_config import ReplayConfig


class BufferConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Batch size, staleness limit and lease duration of a run."""

    batch_size: Annotated[
        int,
        _field(
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
        _field(
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
        _field(
            "Off-policy tolerance",
            "Batches that may wait in the queue before producers pause.",
            unit="batches",
            gt=0,
            le=1024,
        ),
    ] = 3.0
    lease_seconds: Annotated[
        float,
        _field("Lease", "Time that a trainer may hold a batch.", unit="s", ge=1, le=86_400),
    ] = 60.0
    replay: Annotated[ReplayConfig, applicable(NO_LANGUAGE)] = ReplayConfig()

"""Settings of managers and workers."""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from rolldeck.fleet_wire import slot_name
from runs.config.rules.run_config import RunConfig


class FleetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start settings of a manager; all else comes from the platform."""

    platform_url: str
    token: str
    run: str
    """Name of the run."""
    run_config: dict[str, Any]
    """A :class:`runs.config.rules.run_config.RunConfig` as plain JSON values."""
    incarnation: str
    """Id of the manager, unique among all managers of the run."""
    spool_root: str = ""
    """Directory for unsent fragments; empty for the temporary folder."""
    weights_directory: str = ""
    """Shared weights directory of the run; empty if weights come from the platform."""
    run_key: str = ""
    """Globally unique key of the run, unlike its name; empty to use the name."""
    log_root: str = ""
    """Directory for the logs of actors on every node; empty for the temporary folder."""
    closed_nodes: list[str] = []
    """Ids of nodes that were cordoned at launch; the platform sends later changes."""

    @property
    def config(self) -> RunConfig:
        return msgspec.convert(self.run_config, RunConfig)

    @property
    def items_at_once(self) -> int:
        """Number of buffer items that a worker fills concurrently: fragments or sequences."""
        config = self.config
        return config.language.most_sequences if config.language else config.fleet.envs_per_worker

    @property
    def fingerprint(self) -> str:
        return hashlib.blake2s(msgspec.json.encode(self, order="deterministic")).hexdigest()


class WorkerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a rollout worker."""

    fleet: FleetSettings
    index: int
    incarnation: str
    """Id of the worker, unique among all workers of the run."""
    node_id: str = ""
    """Ray's id of the worker's node, set by the worker itself."""

    @property
    def name(self) -> str:
        return f"w{self.index}"

    def slot_name(self, slot: int) -> str:
        """Return the name of an env slot in fragments and step callbacks."""
        return slot_name(worker=self.index, slot=slot, incarnation=self.incarnation)


def derive_seed(base: int, *parts: object) -> int:
    """Return a seed in [0, 2³¹) for the entity named by `parts`.

    It depends on nothing else, so a slot has the same seed in fleets of any size.
    """
    text = "/".join(str(part) for part in (base, *parts))
    return int.from_bytes(hashlib.blake2s(text.encode(), digest_size=4).digest()) >> 1

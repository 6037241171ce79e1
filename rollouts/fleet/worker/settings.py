"""Say what a fleet must know to start: where its platform is, and what its run asks for."""

import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from runs.core.language_config import LanguageConfig
from runs.core.run_config import RunConfig


class FleetSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a manager is given; the rest it asks the platform."""

    platform_url: str
    token: str
    run: str
    """Name of the run."""
    run_config: dict[str, Any]
    """A :class:`runs.core.run_config.RunConfig` as plain JSON values."""
    incarnation: str
    """Unique among the managers that the run ever had."""
    spool_root: str = ""
    """Where workers keep fragments while the platform is away; empty for the temporary folder."""
    weights_directory: str = ""
    """The run's folder of weights; empty where they come from the platform."""
    run_key: str = ""
    """Unlike its name, never that of another run, of whichever platform; empty for the name."""
    log_root: str = ""
    """Where every node keeps the logs of its actors; empty for the temporary folder."""
    closed_nodes: list[str] = []
    """Ids of nodes that were cordoned when the manager was launched; the platform says more."""

    @property
    def config(self) -> RunConfig:
        """What the run asks for."""
        return msgspec.convert(self.run_config, RunConfig)

    @property
    def items_at_once(self) -> int:
        """How many items of the buffer a worker fills at a time: fragments, or sequences."""
        config = self.config
        return sequences_of(config.language) if config.language else config.fleet.envs_per_worker

    @property
    def fingerprint(self) -> str:
        """Changes whenever anything else here does."""
        return hashlib.blake2s(msgspec.json.encode(self, order="deterministic")).hexdigest()


class WorkerSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything a rollout worker is given."""

    fleet: FleetSettings
    index: int
    incarnation: str
    """Unique among the workers that the run ever had."""
    node_id: str = ""
    """As Ray calls the node where it is; it finds out itself."""

    @property
    def name(self) -> str:
        """Name of the worker in fragments and logs."""
        return f"w{self.index}"


def sequences_of(language: LanguageConfig) -> int:
    """Return the sequences of one batch of a language run."""
    return language.prompts_per_batch * language.group_size


def derive_seed(base: int, *parts: object) -> int:
    """Return a seed in [0, 2³¹) for the thing that `parts` name.

    It depends on nothing else: the same slot gets the same seed in a fleet of any size.
    """
    text = "/".join(str(part) for part in (base, *parts))
    return int.from_bytes(hashlib.blake2s(text.encode(), digest_size=4).digest()) >> 1

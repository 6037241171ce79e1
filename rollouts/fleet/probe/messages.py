"""Requests and results of probes."""

from typing import Any, Literal

from msgspec import Struct

from runs.config.rules.sections import ExtensionConfig


class ProbeRequest(Struct, frozen=True, kw_only=True):
    """Request of a probe."""

    kind: Literal["environment", "lesson"]
    spec: str = ""
    kwargs: dict[str, Any] = {}
    episode_steps: int = 0
    """For environments: maximum number of random steps to play; 0 plays none."""
    wrappers: list[ExtensionConfig] = []
    """For environments: registered wrappers."""
    callbacks: list[ExtensionConfig] = []
    """For environments: registered callbacks."""
    policy: dict[str, Any] = {}
    """For environments: settings of a policy that takes a step; empty for none."""
    run_config: dict[str, Any] = {}
    """For environments: a run of which a worker makes one fragment; empty for none."""


class Episode(Struct, frozen=True, kw_only=True):
    """Result of an episode of random actions."""

    steps: int
    ended: Literal["terminated", "truncated", "cut"]
    """`cut` means that the episode was still running when the step limit was reached."""
    total_return: float | None
    """Null if a reward was not finite."""
    rewards: list[float | None]
    """Rewards of the first steps."""
    steps_per_second: float
    outside: str = ""
    """Part of an observation that was outside the declared space; empty if none was."""


class Outcome(Struct, frozen=True, kw_only=True):
    """Result of a probe; `trouble` is empty on success.

    An environment with an `observation` was constructed and reset; its trouble came later.
    """

    trouble: str = ""
    field: str = ""
    """Field of the configuration that is at fault, if it is not the environment itself."""
    is_missing: bool = False
    """Whether this machine lacks something others may have, such as a package or registration."""
    seconds: float = 0.0
    observation: str = ""
    """Observation space; for lessons the number of problems, where it is known."""
    action: str = ""
    shows_images: bool = False
    bytes_per_step: int = 0
    """Size of one observation and one action."""
    policy_trouble: str = ""
    """Why the policy cannot be built or take a step; empty on success or without a policy."""
    is_policy_missing: bool = False
    """Whether this machine lacks a package of the policy that others may have, such as torch."""
    fragment_bytes: int = 0
    """Size of a push of one fragment of the run; 0 if none was made."""
    fragment_problem: str = ""
    """Why the server would refuse that fragment, apart from its size; empty if it would not."""
    stage: Literal["", "wrappers", "callbacks", "episode", "policy", "step_callbacks", "worker"] = (
        ""
    )
    """Part that is called next, of a result that precedes it; empty for a final result."""
    parameters: int = 0
    """Number of the policy's parameters."""
    episode: Episode | None = None

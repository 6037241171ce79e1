"""Messages between a worker and its reward processes."""

from msgspec import Struct

from rollouts.fleet.rewards.answers import Answered
from rollouts.tasks.rules.dataset_config import RewardConfig


class Build(Struct, frozen=True, array_like=True, tag=True):
    """Reward functions to build by their positions; the first message."""

    rewards: dict[int, RewardConfig]


class Call(Struct, frozen=True, array_like=True, tag=True):
    """Request of one reward of one answer."""

    reward: int
    answered: Answered


class Built(Struct, frozen=True, array_like=True, tag=True):
    """Response to :class:`Build`; `kind` and `message` are empty on success."""

    kind: str = ""
    message: str = ""


class Scored(Struct, frozen=True, array_like=True, tag=True):
    """Response to :class:`Call`; `error` is empty on success."""

    reward: float
    error: str = ""
    is_invalid: bool = False
    """Whether the function returned a value that is not a finite number."""


ToProcess = Build | Call
FromProcess = Built | Scored

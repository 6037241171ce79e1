"""List what the demo can show: a run, who trains it, and how its progress is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from config.demo.lessons import Curricula
from config.demo.progress import Learning
from config.demo.returns import Returns


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One thing to show.

    Attributes:
        title: Stands above the table.
        preset: What the run is configured by.
        trainer: File among the examples.
        limit_seconds: When the mark is missed, by default, counted from the start.
        learning: Reads what the run with an id has learnt.
    """

    title: str
    preset: str
    trainer: str
    limit_seconds: float
    learning: Callable[[int], Learning]


SUBJECTS: Final[Mapping[str, Subject]] = MappingProxyType(
    {
        "cartpole": Subject(
            title="CartPole with PPO",
            preset="cartpole",
            trainer="ppo_cartpole.py",
            limit_seconds=600.0,
            learning=Returns,
        ),
        "grpo": Subject(
            title="lessons in text with GRPO",
            preset="curriculum",
            trainer="grpo.py",
            limit_seconds=1200.0,
            learning=Curricula,
        ),
    }
)

"""The demos to choose from: a run, its trainer, and the reader of its progress."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from config.demo.lessons import Curricula
from config.demo.progress import ProgressSource
from config.demo.returns import Returns


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoKind:
    """One demo.

    Attributes:
        title: Title of the table.
        preset: Preset of the run.
        trainer: File name of the trainer in examples/.
        limit_seconds: Default time limit to reach the target, counted from the start.
        learning: Creates the progress reader for a run id.
    """

    title: str
    preset: str
    trainer: str
    limit_seconds: float
    learning: Callable[[int], ProgressSource]


DEMOS: Final[Mapping[str, DemoKind]] = MappingProxyType(
    {
        "cartpole": DemoKind(
            title="CartPole with PPO",
            preset="cartpole",
            trainer="ppo_cartpole.py",
            limit_seconds=600.0,
            learning=Returns,
        ),
        "grpo": DemoKind(
            title="lessons in text with GRPO",
            preset="curriculum",
            trainer="grpo.py",
            limit_seconds=1200.0,
            learning=Curricula,
        ),
    }
)

"""Minimal platform for a language run over real HTTP: tasks, outcomes and groups."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from rolldeck import groups, wire
from rolldeck.lessons import LessonOutcome, OutcomeReceipt, RolloutTask, TaskRequest
from rollouts.fleet.engine.building import build
from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings
from runs.config.rules import run_config
from runs.config.rules.language_config import LanguageConfig
from runs.config.rules.run_config import RunConfig
from tests.unit.rollouts.fleet.groups.conftest import SHAPES
from tests.unit.rollouts.fleet.small_platform import SmallPlatform, served


class Weights:
    """State dict of a language model, with the names of a checkpoint."""

    def __init__(self, language: LanguageConfig) -> None:
        self._model = build(language).model

    def state_dict(self) -> "dict[str, object]":
        return dict(named_tensors(self._model))


class LanguagePlatform(SmallPlatform):
    """Platform that stores groups by the key of their push, and all outcomes."""

    def __init__(self, language: LanguageConfig, *, room: int = 10_000) -> None:
        super().__init__(room=room)
        self.language = language
        self._numbers = count()
        self.pushes: dict[str, list[groups.GroupArrays]] = {}
        self.answered: list[tuple[str, int]] = []
        """Lesson and number of each answered problem."""
        self.repeated = 0
        self.outcomes: list[tuple[str, LessonOutcome]] = []
        self.requests: list[TaskRequest] = []
        self.tasks: list[RolloutTask] = []
        """Tasks to return first, before the lessons take turns."""

    @property
    def groups(self) -> list[groups.GroupArrays]:
        return [group for push in list(self.pushes.values()) for group in push]

    @property
    def sequences(self) -> int:
        return sum(group.sequences for group in self.groups)

    def remaining(self) -> int:
        return max(0, self.room - self.sequences)

    def publish_weights(self, step: int, *, epoch: int = 1) -> None:
        self.publish(step, epoch=epoch, module=Weights(self.language))  # type: ignore[arg-type]

    def answer_to(self, path: str, body: bytes, key: str) -> bytes:
        if path.endswith("/groups"):
            return msgspec.json.encode(self._take_groups(body, key))
        if path.endswith("/lessons/tasks"):
            request = msgspec.json.decode(body, type=TaskRequest)
            self.requests.append(request)
            return msgspec.json.encode(self.tasks.pop(0) if self.tasks else self._next_task())
        if path.endswith("/outcomes"):
            lesson, outcome = path.split("/")[-2], msgspec.json.decode(body, type=LessonOutcome)
            self.outcomes.append((lesson, outcome))
            return msgspec.json.encode(OutcomeReceipt(is_new=True))
        return b""

    def _next_task(self) -> RolloutTask:
        number, lessons = next(self._numbers), list(self.language.lessons)
        lesson = lessons[number % len(lessons)]
        examples = self.language.prompts_of(lesson)
        return RolloutTask(
            kind="train",
            lesson=lesson,
            first_example=number // len(lessons) * examples,
            examples=examples,
            generations=self.language.group_size_of(lesson),
            seed=number,
        )

    def _take_groups(self, body: bytes, key: str) -> wire.GroupsReceipt:
        push = msgspec.msgpack.decode(body, type=wire.GroupPush)
        if key in self.pushes:
            self.repeated += 1
        else:
            self.answered += [(push.lesson, number) for number in push.problems]
        self.pushes[key] = [groups.read_msgpack(group) for group in push.groups]
        return wire.GroupsReceipt(
            received=len(push.groups),
            buffered=0,
            dropped={},
            admission_remaining=self.remaining(),
        )


def language_run(
    lessons: dict[str, Any], *, num_workers: int = 1, max_staleness: int = 100, **language: Any
) -> RunConfig:
    """Return the configuration of a language run with a small model and small batches."""
    small = {"group_size": 4, "prompts_per_batch": 3, "keeps_zero_variance": True}
    model = SHAPES | language.pop("model", {})
    return run_config.parse(
        {
            "language": {
                "lessons": lessons,
                "model": model,
                "evaluation": {"examples": 64},
                **small,
                **language,
            },
            "fleet": {"num_workers": num_workers},
            "buffer": {"max_staleness": max_staleness},
        }
    )


def settings_of(config: RunConfig, folder: Path, *, url: str) -> FleetSettings:
    """Return the settings of a fleet whose spool and logs are in a folder."""
    return FleetSettings(
        platform_url=url,
        token="t",
        run="r",
        run_config=run_config.to_builtins(config),
        incarnation="1-aaaa",
        spool_root=str(folder / "spool"),
        log_root=str(folder / "logs"),
    )


@contextmanager
def language_fleet(
    config: RunConfig, folder: Path, *, room: int = 10_000, tasks: Sequence[RolloutTask] = ()
) -> Iterator[LanguagePlatform]:
    """Run a language fleet in this process, and its platform; yield the platform."""
    assert config.language is not None
    platform = LanguagePlatform(config.language, room=room)
    platform.tasks += tasks
    with served(platform) as url, LocalFleet(settings_of(config, folder, url=url)):
        yield platform

"""Minimal platform for a language run over real HTTP: tasks, outcomes and groups."""

import msgspec

from rolldeck import groups, wire
from rolldeck.lessons import LessonOutcome, RolloutTask, TaskRequest
from rollouts.fleet.engine.building import build
from rollouts.fleet.engine.checkpoints import named_tensors
from runs.config.rules.language_config import LanguageConfig
from tests.unit.rollouts.fleet.groups.local_curriculum import LocalCurriculum
from tests.unit.rollouts.fleet.small_platform import SmallPlatform


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
        self.curriculum = LocalCurriculum(language, seed=1)
        self.pushes: dict[str, list[groups.GroupArrays]] = {}
        self.repeated = 0
        self.outcomes: list[tuple[str, LessonOutcome]] = []
        self.requests: list[TaskRequest] = []
        self.tasks: list[RolloutTask] = []
        """Tasks to return first, before the curriculum is asked."""

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
            task = self.tasks.pop(0) if self.tasks else self.curriculum.next_task(request)
            return msgspec.json.encode(task)
        if path.endswith("/outcomes"):
            lesson, outcome = path.split("/")[-2], msgspec.json.decode(body, type=LessonOutcome)
            self.outcomes.append((lesson, outcome))
            return msgspec.json.encode(self.curriculum.record(lesson, outcome))
        return b""

    def _take_groups(self, body: bytes, key: str) -> wire.GroupsReceipt:
        push = msgspec.msgpack.decode(body, type=wire.GroupPush)
        self.repeated += key in self.pushes
        self.pushes[key] = [groups.read_msgpack(group) for group in push.groups]
        return wire.GroupsReceipt(
            received=len(push.groups),
            buffered=0,
            dropped={},
            admission_remaining=self.remaining(),
        )

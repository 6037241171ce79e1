"""Tasks whose replies fail, arrive in parallel, or belong to a chat."""

import threading
from collections.abc import Callable

from rollouts.fleet.groups.task_environment import TaskEnvironment
from rollouts.tasks.rules.task import EpisodeFailed, Example, Mode, Reply, Turn
from tests.unit.rollouts.fleet.groups.conftest import Bench

MakeBench = Callable[..., Bench]
LESSON = {"spec": "task:reverse", "sampling": {"max_tokens": 4}}
MESSAGES = ({"role": "system", "content": "Go. "}, {"role": "user", "content": "One?"})


class Stored:
    """Two turns per problem; the problem with number 1 fails in the second."""

    name, most_turns, alphabet = "stored", 2, ""

    def __init__(self, *, fails: bool = False, is_chat: bool = False) -> None:
        self._fails, self._is_chat = fails, is_chat

    def problem(self, number: int, *, mode: Mode, seed: int) -> Example:
        del mode, seed
        messages = MESSAGES if self._is_chat else ()
        return Example(key=str(number), prompt=f"{number}?", answer="", messages=messages)

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        if self._fails and example.key == "1" and len(turns) == 2:
            raise EpisodeFailed("tool_failed", "the tool is gone")
        is_over = len(turns) == 2
        return Reply("" if is_over else " More. ", is_over=is_over, reward=float(is_over))


class Parallel(Stored):
    """Waits in each reply until two others wait too."""

    replies_at_a_time = 3

    def __init__(self) -> None:
        super().__init__()
        self._barrier = threading.Barrier(3)

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        self._barrier.wait(30)
        return super().reply(example, turns)


def with_task(bench: MakeBench, task: Stored) -> Bench:
    at = bench({"odd": LESSON}, model={"tokenizer": "bytes"})
    at.worker._environments["odd"] = TaskEnvironment(task)  # type: ignore[arg-type]
    return at


def test_an_episode_that_fails_drops_its_group(bench: MakeBench) -> None:
    at = with_task(bench, Stored(fails=True))

    batch, metrics = at.sample("odd", n_examples=3)

    assert [group.example for group in batch.groups] == ["0", "2"]
    assert metrics["faults"] == 2.0
    [event] = at.events.pop()
    assert (event.kind, event.message) == ("tool_failed", "Lesson odd: 1: the tool is gone")


def test_replies_of_a_waiting_task_arrive_in_parallel(bench: MakeBench) -> None:
    at, serial = with_task(bench, Parallel()), with_task(bench, Stored())

    first, _ = at.sample("odd", n_examples=3, n_generations=2)
    again, _ = serial.sample("odd", n_examples=3, n_generations=2)

    assert [one.tokens for one in first.rollouts] == [one.tokens for one in again.rollouts]


def test_a_reply_in_a_chat_is_rendered_by_the_template(bench: MakeBench) -> None:
    at = with_task(bench, Stored(is_chat=True))

    batch, _ = at.sample("odd", n_examples=1, n_generations=2)

    for rollout in batch.rollouts:
        pairs = zip(rollout.tokens, rollout.is_own, strict=True)
        read = bytes(token for token, is_own in pairs if not is_own).decode()
        assert read == "Go. One? More. "

"""Lessons on a real OpenEnv server: sessions over `/ws` with our policy."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.engine.tokenizers import HuggingFaceTokenizer
from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.errors import LessonFailed
from rollouts.fleet.groups.worker import GroupRolloutWorker
from rollouts.fleet.process.loops import EventLog
from runs.config.rules import run_config
from tests.partners import chat_checkpoint
from tests.partners.openenv_process import bisect, guessing_server
from tests.partners.scripted_policy import Script, ScriptedServer
from tests.unit.rollouts.fleet.groups.recorded_outcomes import RecordedOutcomes

pytestmark = pytest.mark.partner

SPEC = "openenv:guessing"


@pytest.fixture(scope="module")
def game() -> Iterator[str]:
    """Return the URL of an OpenEnv server with the guessing game."""
    with guessing_server("openenv") as url:
        yield url


Play = Callable[..., Any]


@pytest.fixture
def play(game: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """Return a function that samples a batch of the lesson: groups, figures and events."""
    chat_checkpoint.write(tmp_path)
    tokenizer = HuggingFaceTokenizer(tmp_path)
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", SPEC)
    workers: list[GroupRolloutWorker] = []

    def sample(
        script: Script,
        *,
        kwargs: dict[str, Any] | None = None,
        context: int = chat_checkpoint.CONTEXT,
        **settings: Any,
    ) -> Any:
        monkeypatch.setenv("ROLLDECK_OPENENV", json.dumps({"guessing": {"url": game} | settings}))
        lesson = {"spec": SPEC, "kwargs": {"seeds": 10} | (kwargs or {})}
        language = run_config.parse({"language": {"lessons": {"guess": lesson}}}).language
        assert language is not None
        events = EventLog()
        worker = GroupRolloutWorker(
            language,
            server=ScriptedServer(tokenizer, script, version=(1, 4)),
            tokenizer=tokenizer,
            context_tokens=context,
            curriculum=RecordedOutcomes(),
            events=events,
        )
        workers.append(worker)
        batch, metrics = worker.sample_batch(
            "guess",
            n_examples=5,
            n_generations=2,
            mode="train",
            rng=Draw(7),
            policy_version=(1, 4),
            worker_id="test_worker",
        )
        return batch, metrics, events.pop()

    yield sample
    for worker in workers:
        worker.shutdown()


def test_episodes_have_the_rewards_of_the_server_and_the_tokens_of_each_turn(play: Play) -> None:
    batch, metrics, _ = play(bisect, kwargs={"instructions": "Find the number."})

    assert [len(group.rollouts) for group in batch.groups] == [2] * 5
    assert {group.example for group in batch.groups} == {
        f"openenv:guessing:train:{seed}" for seed in range(5)
    }
    turns = [rollout.response.count('{"number"') for rollout in batch.rollouts]
    rewards = [rollout.reward for rollout in batch.rollouts]
    assert rewards == pytest.approx([1.0 - 0.1 * (count - 1) for count in turns])
    assert metrics["env.turns"] == sum(turns) / 10
    assert (metrics["env.completed"], metrics["env.invalid_actions"]) == (1.0, 0.0)
    assert max(turns) > 1
    for rollout in batch.rollouts:
        assert rollout.is_correct
        assert not rollout.is_truncated
        assert "Find the number." in rollout.prompt
        own = [mine for mine in rollout.versions if mine]
        assert set(own) == {(1, 4)}
        assert len(own) == len('{"number": 4}') * rollout.response.count('{"number"') + len(
            re.findall(r'\{"number": \d\}', rollout.response)
        )


def test_the_value_of_the_only_required_field_is_an_action(play: Play) -> None:
    batch, metrics, _ = play(lambda _: "3", kwargs={"max_turns": 1})

    by_seed = {group.example.rpartition(":")[2]: group.rewards for group in batch.groups}
    assert by_seed["3"] == [1.0, 1.0]
    assert by_seed["2"] == pytest.approx([-0.1, -0.1])
    assert metrics["env.completed"] == 0.2
    assert sum(rollout.is_truncated for rollout in batch.rollouts) == 8


def test_a_refused_action_is_the_next_observation(play: Play) -> None:
    def guess(prompt: str) -> str:
        return '{"nmber": 1}' if "invalid action" not in prompt else bisect(prompt)

    batch, metrics, _ = play(guess)

    assert metrics["env.invalid_actions"] == 1
    assert all("number: Field required" in rollout.response for rollout in batch.rollouts)
    assert all(rollout.is_correct for rollout in batch.rollouts)


def test_the_context_ends_an_episode(play: Play) -> None:
    batch, _, _ = play(lambda _: '{"number": 11}', context=200)

    assert all(rollout.is_truncated for rollout in batch.rollouts)
    assert all(len(rollout.tokens) <= 200 for rollout in batch.rollouts)


def test_a_first_observation_that_does_not_fit_drops_the_group(play: Play) -> None:
    batch, _, events = play(bisect, context=20)

    assert batch is None
    assert events[0].kind == "prompt_too_long"


@pytest.mark.parametrize(
    ("settings", "kwargs", "kind", "text"),
    [
        ({"url": "http://127.0.0.1:9"}, {}, "environment_failed", "no action schema at http"),
        ({"url": "guess"}, {}, "environment_unknown", "ROLLDECK_OPENENV of"),
        ({}, {"max_turns": 0}, "environment_kwargs", "max_turns"),
        ({}, {"chess": 1}, "environment_kwargs", "chess"),
    ],
)
def test_an_invalid_lesson_has_a_reason(
    play: Play, settings: dict[str, Any], kwargs: dict[str, Any], kind: str, text: str
) -> None:
    with pytest.raises(LessonFailed, match=text) as refused:
        play(bisect, kwargs=kwargs, **settings)

    assert refused.value.kind == kind


def test_a_failed_reset_drops_the_group_and_is_reported(play: Play) -> None:
    batch, _, events = play(bisect, kwargs={"reset": {"episode_id": 4}})

    assert batch is None
    assert events[0].kind == "rollout_failed"
    assert "refused the reset" in events[0].message or "ERROR" in events[0].message

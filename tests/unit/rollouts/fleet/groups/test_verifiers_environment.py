"""Environments of the `verifiers` package work as lessons.

The package in this test is a stand-in with the interface of version 0.1.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.environment_loader import load_environment
from rollouts.fleet.groups.errors import LessonFailed, SamplingStopped
from tests.unit.rollouts.fleet.engine.small_models import logprobs
from tests.unit.rollouts.fleet.groups.conftest import Bench

MakeBench = Callable[..., Bench]
STAND_INS = str(Path(__file__).resolve().parents[4] / "stand_ins")
SPEC = "verifiers:somebody/letters-env"
REGISTERED = (SPEC, "verifiers:nobody/has-this", "verifiers:os.path")
OURS = "rollouts.fleet.groups.verifiers_client"


def forget() -> None:
    for name in list(sys.modules):
        if name.split(".")[0] in {"verifiers", "letters_env"} or name == OURS:
            del sys.modules[name]


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    forget()
    monkeypatch.syspath_prepend(STAND_INS)
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", ",".join(REGISTERED))
    yield
    forget()


def lesson(**kwargs: Any) -> dict[str, Any]:
    sampling = {"max_tokens": 8}
    return {"letters": {"spec": SPEC, "kwargs": kwargs, "sampling": sampling}}


@pytest.fixture
def playing(bench: MakeBench, package: None) -> Callable[..., Bench]:
    def play(**kwargs: Any) -> Bench:
        return bench(lesson(**kwargs), model={"tokenizer": "bytes"})

    return play


def test_groups_have_rubric_rewards_and_policy_tokens(
    playing: Callable[..., Bench],
) -> None:
    at = playing(turns=2)

    batch, metrics = at.sample("letters", n_examples=2, n_generations=3)

    assert [len(group.rollouts) for group in batch.groups] == [3, 3]
    rewards = [rollout.reward for rollout in batch.rollouts]
    assert metrics["env.letters_share"] == pytest.approx(sum(rewards) / 6)
    for rollout in batch.rollouts:
        letter = rollout.prompt[0]
        own = bytes(
            token for token, mine in zip(rollout.tokens, rollout.is_own, strict=True) if mine
        )
        assert rollout.prompt == f"{letter * 2}"
        assert 1 <= len(own) <= 16
        assert 0.0 <= rollout.reward <= 1.0
        expected = logprobs(at.model, list(rollout.tokens))
        for place, (token, mine) in enumerate(zip(rollout.tokens, rollout.is_own, strict=True)):
            drawn = float(expected[place - 1, token]) if mine else 0.0
            assert rollout.logprobs[place] == pytest.approx(drawn, abs=1e-3)


def test_equal_draws_give_equal_rollouts(playing: Callable[..., Bench]) -> None:
    first, _ = playing().sample("letters", n_examples=3)
    again, _ = playing().sample("letters", n_examples=3)
    other, _ = playing().sample("letters", n_examples=3, rng=Draw(8))

    tokens = [[rollout.tokens for rollout in batch.rollouts] for batch in (first, again, other)]
    assert tokens[0] == tokens[1] != tokens[2]
    assert first.rollouts[0].tokens != first.rollouts[1].tokens


def test_every_row_is_used_once_before_a_repetition_and_evaluation_has_its_own(
    playing: Callable[..., Bench],
) -> None:
    at = playing()

    trained, _ = at.sample("letters", n_examples=10)
    evaluated, _ = at.sample("letters", n_examples=3, mode="eval")

    keys = [group.example for group in trained.groups]
    assert set(keys[:5]) == set(keys[5:])
    assert len(set(keys)) == 5
    assert {rollout.prompt[0] for rollout in trained.rollouts} == set("abcde")
    assert {rollout.prompt[0] for rollout in evaluated.rollouts} == set("fgh")


@pytest.mark.parametrize(
    ("kwargs", "kind", "text"),
    [
        ({"turns": 2, "rewrites": True}, "rollout_failed", "changed the conversation so far"),
        ({"length": 64}, "prompt_too_long", "leaves no room in the context"),
    ],
)
def test_a_failed_rollout_drops_its_group_and_is_reported(
    playing: Callable[..., Bench], kwargs: dict[str, Any], kind: str, text: str
) -> None:
    at = playing(**kwargs)

    assert at.sample("letters") == (None, None)

    [event, *_] = [event for event in at.events.pop() if event.kind == kind]
    assert text in event.message


def test_an_environment_is_loaded_by_any_thread(package: None) -> None:
    results: list[Any] = []
    loading = Thread(target=lambda: results.append(load_environment(SPEC, {})))
    loading.start()
    loading.join(60)

    assert len(results) == 1


@pytest.mark.parametrize(
    ("spec", "kwargs", "kind"),
    [
        ("verifiers:nobody/has-this", {}, "environment_unknown"),
        ("verifiers:os.path", {}, "environment_unknown"),
        (SPEC, {"size": 3}, "environment_kwargs"),
        (SPEC, {"tools": True}, "environment_failed"),
    ],
)
def test_an_invalid_environment_has_a_reason(
    package: None, spec: str, kwargs: dict[str, Any], kind: str
) -> None:
    with pytest.raises(LessonFailed) as refused:
        load_environment(spec, kwargs)

    assert refused.value.kind == kind


def test_without_the_package_the_lesson_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forget()
    # Python marks modules as not importable in this way.
    monkeypatch.setitem(sys.modules, "verifiers", None)
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", SPEC)

    with pytest.raises(LessonFailed, match="needs verifiers") as refused:
        load_environment(SPEC, {})

    assert refused.value.kind == "dependency_missing"


def test_a_stop_ends_a_batch(playing: Callable[..., Bench]) -> None:
    at = playing()
    at.worker.load_environment("letters")
    at.worker.shutdown()

    with pytest.raises(SamplingStopped):
        at.sample("letters")

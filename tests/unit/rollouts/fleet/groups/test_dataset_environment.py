"""Lessons of a data set in a language worker: rewards, failures, and bad data."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.groups.errors import LessonFailed
from tests.unit.rollouts.fleet.datasets.dataset_files import sums, write_jsonl
from tests.unit.rollouts.fleet.groups.conftest import Bench
from tests.unit.rollouts.fleet.rewards import own_rewards

MakeBench = Callable[..., Bench]
ALWAYS = {"kind": "regex", "options": {"pattern": ""}}
ANY = {"kind": "regex", "options": {"pattern": "^"}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    monkeypatch.setenv("ROLLDECK_REWARDS", ",".join(own_rewards.KINDS))
    monkeypatch.setenv("PYTHONPATH", str(Path(own_rewards.__file__).parent))
    write_jsonl(tmp_path / "sums.jsonl", sums(20))
    return tmp_path


@pytest.fixture
def sampling(bench: MakeBench) -> Callable[..., Bench]:
    def make(**kwargs: Any) -> Bench:
        lesson = {
            "spec": f"dataset:{kwargs.pop('name', 'sums.jsonl')}",
            "kwargs": kwargs,
            "sampling": {"max_tokens": 8},
        }
        return bench({"sums": lesson}, model={"tokenizer": "bytes"})

    return make


def own(name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": f"module:own_rewards:{name}", **fields}


def test_the_reward_is_the_mean_of_the_functions_by_weight(
    sampling: Callable[..., Bench],
) -> None:
    at = sampling(rewards=[{"kind": "exact", "weight": 1}, {**ANY, "weight": 3}])

    batch, metrics = at.sample("sums", n_examples=3, n_generations=2)

    assert [len(group.rollouts) for group in batch.groups] == [2, 2, 2]
    for rollout in batch.rollouts:
        number, _, _ = rollout.prompt.partition("+")
        is_exact = rollout.response.strip() == str(int(number) + 1)
        assert rollout.reward == (1.0 if is_exact else 0.75)
        assert rollout.is_correct
        assert [span.name for span in rollout.spans] == ["generate", "reward", "reward"]
    assert metrics["env.reward regex"] == 1.0
    assert 0 <= metrics["env.reward exact"] <= 1


def test_training_and_evaluation_have_different_problems(sampling: Callable[..., Bench]) -> None:
    at = sampling(eval_share=0.2)

    trained, _ = at.sample("sums", n_examples=16)
    evaluated, _ = at.sample("sums", n_examples=4, mode="eval")

    keys = [{group.example for group in batch.groups} for batch in (trained, evaluated)]
    assert [len(each) for each in keys] == [16, 4]
    shown = [{rollout.prompt for rollout in batch.rollouts} for batch in (trained, evaluated)]
    assert not shown[0] & shown[1]


def test_equal_draws_give_equal_problems_in_every_worker(sampling: Callable[..., Bench]) -> None:
    first, _ = sampling().sample("sums")
    again, _ = sampling().sample("sums")

    assert [group.example for group in first.groups] == [group.example for group in again.groups]
    assert [one.tokens for one in first.rollouts] == [one.tokens for one in again.rollouts]


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("raises", "reward_failed", "raised ZeroDivisionError: no reward"),
        ("hangs", "reward_timeout", "did not return within 0.2 s"),
        ("not_a_number", "reward_invalid", "returned nan, expected a finite number"),
    ],
)
def test_a_failed_reward_drops_its_group_and_is_named(
    sampling: Callable[..., Bench], name: str, kind: str, text: str
) -> None:
    at = sampling(rewards=[ANY, own(name, seconds=0.2)])

    assert at.sample("sums", n_examples=1) == (None, None)

    [event] = at.events.pop()
    assert (event.kind, event.level, event.details["lesson"]) == (kind, "warning", "sums")
    assert event.message.startswith("Lesson sums: dataset:sums.jsonl/train/")
    assert f"reward module:own_rewards:{name} {text}" in event.message


def test_functions_that_do_not_score_an_answer_do_not_count(
    sampling: Callable[..., Bench],
) -> None:
    at = sampling(rewards=[{**ANY, "weight": 1}, own("unscored", weight=3)])
    batch, metrics = at.sample("sums", n_examples=1)

    assert [one.reward for one in batch.rollouts] == [1.0, 1.0]
    assert "env.reward unscored" not in metrics


def test_an_answer_that_no_function_scores_follows_the_short_group_policy(
    sampling: Callable[..., Bench],
) -> None:
    at = sampling(rewards=[own("unscored")], on_failure="stop")

    assert at.sample("sums", n_examples=1) == (None, None)
    [event] = at.events.pop()
    assert event.kind == "rollout_unscored"
    assert "no reward function scored the answer" in event.message


def test_the_other_groups_are_kept(sampling: Callable[..., Bench], folder: Path) -> None:
    marker = {"marker": str(folder / "called")}
    at = sampling(rewards=[own("hangs_once", seconds=0.5, options=marker)])

    batch, metrics = at.sample("sums", n_examples=4, n_generations=2)

    assert len(batch.groups) == 3
    assert metrics["faults"] == 1.0
    assert [event.kind for event in at.events.pop()] == ["reward_timeout"]


def test_a_failed_reward_stops_the_lesson_by_its_setting(sampling: Callable[..., Bench]) -> None:
    at = sampling(rewards=[own("raises")], on_failure="stop")

    with pytest.raises(LessonFailed, match="raised ZeroDivisionError") as failure:
        at.sample("sums")
    assert at.evaluate("sums", n_examples=1) == (None, None)

    assert (failure.value.kind, failure.value.stops) == ("reward_failed", True)
    [(lesson, outcome)] = at.curriculum.outcomes
    assert (lesson, outcome.stops) == ("sums", True)
    assert "raised ZeroDivisionError" in outcome.error


def test_a_failed_reward_that_drops_its_group_stops_nothing(
    sampling: Callable[..., Bench],
) -> None:
    at = sampling(rewards=[own("raises")])

    assert at.evaluate("sums", n_examples=1) == (None, None)

    [(_, outcome)] = at.curriculum.outcomes
    assert (outcome.error, outcome.stops) == ("no valid rollouts", False)


def test_invalid_rows_are_left_out_and_reported_once(
    sampling: Callable[..., Bench], folder: Path
) -> None:
    rows = [*sums(4), {"prompt": "x" * 10_000_000, "answer": ""}, {"question": "1"}]
    write_jsonl(folder / "mixed.jsonl", rows)
    at = sampling(name="mixed.jsonl", rewards=[ANY])

    for _ in range(2):
        assert at.sample("sums")[0] is not None

    [event] = at.events.pop()
    assert event.kind == "row_invalid"
    assert "2 rows are left out: mixed.jsonl, line 5: 10,000,029 bytes" in event.message
    assert "mixed.jsonl, line 6: column 'prompt' is missing" in event.message


@pytest.mark.parametrize(
    ("kwargs", "kind", "text"),
    [
        ({"name": "absent.jsonl"}, "dataset_missing", "absent.jsonl does not exist below"),
        ({"name": "empty.jsonl"}, "dataset_invalid", "empty.jsonl: contains no rows"),
        ({"prompt": "question"}, "dataset_invalid", "columns: prompt, answer"),
        ({"name": "../sums.jsonl"}, "environment_kwargs", "below ROLLDECK_DATASETS"),
        ({"rewards": [own("absent")]}, "environment_unknown", "ROLLDECK_REWARDS"),
        ({"rewards": [{"kind": "math"}]}, "dependency_missing", "rolldeck-server[prompts]"),
    ],
)
def test_an_unusable_lesson_is_named(
    sampling: Callable[..., Bench], folder: Path, kwargs: dict[str, Any], kind: str, text: str
) -> None:
    (folder / "empty.jsonl").write_text("")
    at = sampling(**kwargs)

    with pytest.raises(LessonFailed) as failure:
        at.sample("sums")

    assert failure.value.kind == kind
    assert text in str(failure.value)


def test_a_prompt_longer_than_the_context_is_named(
    sampling: Callable[..., Bench], folder: Path
) -> None:
    write_jsonl(folder / "long.jsonl", [{"prompt": "x" * 500, "answer": ""}] * 3)
    at = sampling(name="long.jsonl")

    assert at.sample("sums", n_examples=1) == (None, None)
    assert [event.kind for event in at.events.pop()] == ["prompt_too_long"]


def test_messages_are_rendered_by_the_chat_template(
    sampling: Callable[..., Bench], folder: Path
) -> None:
    messages = [{"role": "user", "content": "2+2="}]
    write_jsonl(folder / "chat.jsonl", [{"prompt": messages, "answer": "4"}] * 3)
    at = sampling(name="chat.jsonl", chat=True, system="Add: ", rewards=[ANY])

    batch, _ = at.sample("sums", n_examples=1, n_generations=1)

    [rollout] = batch.rollouts
    prompt = [t for t, own in zip(rollout.tokens, rollout.is_own, strict=True) if not own]
    assert bytes(prompt).decode() == "Add: 2+2="


def test_the_policy_reads_the_tokens_of_a_prompt_unchanged(
    sampling: Callable[..., Bench], folder: Path
) -> None:
    tokens = [*b"2+", 0xFF, 256]
    write_jsonl(folder / "tokens.jsonl", [{"prompt": tokens, "answer": ""}] * 3)
    at = sampling(name="tokens.jsonl", rewards=[ANY])

    batch, _ = at.sample("sums", n_examples=1, n_generations=1)

    [rollout] = batch.rollouts
    assert [*rollout.tokens[:5]] == [*tokens, rollout.tokens[4]]
    assert [*rollout.is_own[:5]] == [False] * 4 + [True]
    assert rollout.prompt == "2+\ufffd<|end|>"


def test_a_token_that_the_tokenizer_lacks_is_named(
    sampling: Callable[..., Bench], folder: Path
) -> None:
    write_jsonl(folder / "tokens.jsonl", [{"prompt": [50, 257], "answer": ""}] * 3)
    at = sampling(name="tokens.jsonl", rewards=[ANY])

    assert at.sample("sums", n_examples=1) == (None, None)

    [event] = at.events.pop()
    assert event.kind == "tokenizer_unusable"
    assert "prompt: token 257 is not one of the tokenizer's 257" in event.message

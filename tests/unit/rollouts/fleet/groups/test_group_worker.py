"""A group rollout worker samples, evaluates and reports without external services."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest

from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.engine.engine import TokenUnknown
from rollouts.fleet.groups.batches import Draw, RolloutBatch
from rollouts.fleet.groups.environments import RolloutRequest, Sampled
from rollouts.fleet.groups.errors import LessonFailed, SamplingStopped
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.groups.task_environment import TaskEnvironment
from tests.unit.rollouts.fleet.engine.small_models import logprobs
from tests.unit.rollouts.fleet.groups.odd_token_environments import Chinese

MakeBench = Callable[..., Any]
REVERSE = {"spec": "task:reverse", "kwargs": {"length": 3, "letters": 4}}
SHOPPING = {"spec": "task:shopping", "kwargs": {"goods": 1}}


def odd(name: str) -> dict[str, Any]:
    return {"spec": f"module:odd_token_environments:{name}"}


def prompts_of(batch: RolloutBatch) -> list[str]:
    return [rollout.prompt for rollout in batch.rollouts]


def evaluations(at: Any, *, problems: int, draw: Draw) -> dict[str, Any]:
    """Evaluate every lesson and return the results by name."""
    return {name: at.evaluate(name, n_examples=problems, rng=draw) for name in at.lessons}


def test_a_batch_has_its_metadata_on_every_rollout(bench: MakeBench) -> None:
    at = bench({"test_lesson": REVERSE}, now=lambda: 123.0)
    batch, metrics = at.sample("test_lesson")

    assert batch is not None
    assert [len(group.rollouts) for group in batch.groups] == [2] * 4
    assert batch.metadata.policy_version == (1, 100)
    for rollout in batch.rollouts:
        assert rollout.metadata.worker_id == "test_worker"
        assert rollout.metadata.lesson == "test_lesson"
        assert rollout.metadata.policy_version == (1, 100)
        assert rollout.metadata.sampled_at == 123.0
    assert metrics["tokens"] == batch.tokens > 0
    assert 0 <= metrics["success_rate"] <= 1


def test_only_the_policys_own_tokens_are_masked_in_with_their_logprobs(bench: MakeBench) -> None:
    at = bench({"prices": SHOPPING, "odd": odd("Endless")}, model={"tokenizer": "bytes"})
    batch, metrics = at.sample("odd", n_examples=2)

    assert metrics["env.turns_mean"] >= 1
    for rollout in batch.rollouts:
        text = at.tokenizer.encode(rollout.prompt)
        assert rollout.tokens[: len(text)] == text
        assert not any(rollout.is_own[: len(text)])
        assert rollout.own_tokens == sum(version == (1, 100) for version in rollout.versions)
        assert rollout.is_truncated
        # Replies of the environment are never counted as the policy's tokens.
        tokens = [
            token for token, own in zip(rollout.tokens, rollout.is_own, strict=True) if not own
        ][len(text) :]
        assert tokens == at.tokenizer.encode("a>") * (len(tokens) // 2)


def test_behaviour_logprobs_are_those_of_one_full_pass(bench: MakeBench) -> None:
    at = bench({"odd": odd("Endless")}, model={"tokenizer": "bytes"})
    batch, _ = at.sample("odd", n_examples=1, n_generations=3)

    for rollout in batch.rollouts:
        expected = logprobs(at.model, list(rollout.tokens))
        for place, (token, is_own) in enumerate(zip(rollout.tokens, rollout.is_own, strict=True)):
            actual = rollout.logprobs[place]
            assert actual == pytest.approx(
                float(expected[place - 1, token]) if is_own else 0.0, abs=1e-3
            )


def test_equal_draws_have_equal_batches_for_any_worker_and_cut(bench: MakeBench) -> None:
    whole, _ = bench({"r": REVERSE}).sample("r", n_examples=4)
    other = bench({"r": REVERSE})
    again = [
        rollout
        for first in (0, 2)
        for rollout in other.sample("r", n_examples=2, rng=Draw(7, first), worker_id=f"w{first}")[
            0
        ].rollouts
    ]

    assert prompts_of(whole) == [rollout.prompt for rollout in again]
    assert [rollout.tokens for rollout in whole.rollouts] == [one.tokens for one in again]
    further, _ = other.sample("r", rng=Draw(8))
    assert prompts_of(further) == prompts_of(whole)
    assert [rollout.tokens for rollout in further.rollouts] != [
        rollout.tokens for rollout in whole.rollouts
    ]


def test_two_lessons_of_one_evaluation_have_different_draws(bench: MakeBench) -> None:
    at = bench({"a": REVERSE, "b": REVERSE}, evaluation={"examples": 64, "temperature": 1.0})
    results = evaluations(at, problems=4, draw=Draw(3))

    (_, first), (_, second) = results["a"], results["b"]
    assert prompts_of(first) == prompts_of(second)
    assert [rollout.tokens for rollout in first.rollouts] != [
        rollout.tokens for rollout in second.rollouts
    ]
    assert [lesson for lesson, _ in at.curriculum.outcomes] == ["a", "b"]
    assert {outcome.mode for _, outcome in at.curriculum.outcomes} == {"eval"}
    assert len({outcome.key for _, outcome in at.curriculum.outcomes} | {"x"}) == 3


def test_evaluation_has_its_own_problems_and_sampling(bench: MakeBench) -> None:
    at = bench({"r": REVERSE | {"sampling": {"temperature": 2.0}}})
    trained, _ = at.sample("r")
    figures, batch = at.evaluate("r", n_examples=6, n_generations=3, eval_type="micro_eval")

    assert not set(prompts_of(trained)) & {group.example for group in batch.groups}
    for group in batch.groups:
        # With greedy sampling, all answers to a problem are equal.
        assert len({tuple(rollout.tokens) for rollout in group.rollouts}) == 1
    assert (figures.problems, figures.generations) == (6, 3)
    assert set(figures.pass_at) == {1, 2, 3}
    assert at.curriculum.outcomes[0][1].mode == "micro_eval"
    assert len(at.curriculum.outcomes[0][1].samples) == 16


def test_a_none_batch_never_crashes_an_evaluation(bench: MakeBench) -> None:
    at = bench(
        {"silent": odd("Silent"), "raises": odd("Raises"), "r": REVERSE},
        model={"tokenizer": "bytes"},
    )
    assert at.sample("silent") == (None, None)
    assert at.events.pop()[0].kind == "group_missing"
    results = evaluations(at, problems=2, draw=Draw(0))

    assert results["silent"][1] is None
    assert results["raises"] == (None, None)
    assert results["r"][0].problems == 2
    outcomes = dict(at.curriculum.outcomes)
    assert "no valid rollouts" in outcomes["silent"].error
    assert "ZeroDivisionError" in outcomes["raises"].error
    assert not outcomes["r"].error


def test_success_counts_by_the_lessons_own_threshold(bench: MakeBench) -> None:
    at = bench({"r": REVERSE | {"success_above": -1.0}})
    batch, metrics = at.sample("r")

    assert all(rollout.is_correct for rollout in batch.rollouts)
    assert metrics["success_rate"] == 1


@pytest.mark.parametrize(
    ("name", "kind", "says", "sound"),
    [
        ("Ragged", "group_invalid", "1 rollouts, expected 2", 1),
        ("NotANumber", "rollout_unscored", "has no score", 3),
        ("LongWinded", "prompt_too_long", "10000 tokens; 1 to 63 fit", 2),
    ],
)
def test_an_invalid_part_of_a_batch_is_omitted_and_reported(
    bench: MakeBench, name: str, kind: str, says: str, sound: int
) -> None:
    at = bench({"odd": odd(name), "r": REVERSE}, model={"tokenizer": "bytes"})
    batch, metrics = at.sample("odd")

    assert len(batch.groups) == sound
    assert metrics["faults"] == 4 - sound
    events = at.events.pop()
    assert events[0].kind == kind
    assert says in events[0].message
    assert at.sample("r")[0] is not None


def test_unknown_characters_affect_only_their_problems(bench: MakeBench) -> None:
    at = bench({"odd": REVERSE}, model={"tokenizer": "alphabet"})
    at.worker._environments["odd"] = TaskEnvironment(Chinese())
    batch, _ = at.sample("odd")

    assert len(batch.groups) == 2
    assert at.events.pop()[0].kind == "tokenizer_unusable"


@pytest.mark.parametrize(
    ("lesson", "kind", "says"),
    [
        (odd("Raises"), "environment_failed", "ZeroDivisionError: no train for 64"),
        (odd("Nothing"), "environment_failed", "returned NoneType, expected Sampled"),
        (odd("Foreign"), "tokenizer_unusable", "token 128009 is outside the vocabulary"),
        (odd("Absent"), "environment_unknown", "not registered"),
        ({"spec": "task:chess"}, "environment_unknown", "task:reverse"),
        (
            {"spec": "lean:x"},
            "environment_unknown",
            "task:, dataset:, verifiers:, openenv: or module:",
        ),
        ({"spec": "task:reverse", "kwargs": {"size": 3}}, "environment_kwargs", "size"),
        (odd("Raises") | {"kwargs": {"size": 3}}, "environment_kwargs", "size"),
    ],
)
def test_a_lesson_without_groups_has_a_reason(
    bench: MakeBench, lesson: dict[str, Any], kind: str, says: str
) -> None:
    at = bench({"odd": lesson, "r": REVERSE}, model={"tokenizer": "bytes"})
    with pytest.raises(LessonFailed, match=says) as failure:
        at.sample("odd")
    assert failure.value.kind == kind
    at.worker.report_failure(
        "odd", failure.value, draw=Draw(7), policy_version=(1, 100), worker_id="w"
    )

    assert at.events.pop()[0].kind == kind
    assert says in at.curriculum.outcomes[0][1].error
    assert at.sample("r")[0] is not None


def test_a_repeated_fault_is_reported_at_powers_of_ten(bench: MakeBench) -> None:
    at = bench({"odd": odd("LongWinded")}, model={"tokenizer": "bytes"})
    for _ in range(6):
        at.sample("odd", n_examples=4)

    assert [event.details["count"] for event in at.events.pop()] == [1, 10]


def test_training_statistics_are_sent_and_acknowledged(bench: MakeBench) -> None:
    at = bench({"r": REVERSE})
    batch, metrics = at.sample("r")
    assert at.worker.update_training_stats("r", batch) == []

    lesson, outcome = at.curriculum.outcomes[0]
    assert (lesson, outcome.mode, outcome.epoch, outcome.policy_step) == ("r", "train", 1, 100)
    assert len(outcome.rewards) == len(outcome.successes) == 8
    assert outcome.tokens == metrics["tokens"]


def test_environment_metrics_are_in_the_outcomes_and_invalid_ones_reported(
    bench: MakeBench,
) -> None:
    at = bench({"odd": odd("Measured")}, model={"tokenizer": "bytes"})
    batch, metrics = at.sample("odd")
    at.worker.update_training_stats("odd", batch, metrics)
    at.evaluate("odd", n_examples=2, eval_type="micro_eval", rng=Draw(3))

    expected = {"format": 0.25, "tool calls": 3.0, "is_slow": 1.0}
    assert [outcome.metrics for _, outcome in at.curriculum.outcomes] == [expected, expected]
    assert {name: metrics[f"env.{name}"] for name in expected} == expected
    told = at.events.pop()
    assert told[0].kind == "metric_invalid"
    assert "metric 'a:b'" in told[0].message


def test_a_shutdown_ends_a_batch_under_way_at_once(bench: MakeBench) -> None:
    at = bench(
        {"odd": odd("Endless")}, model={"tokenizer": "bytes", "max_position_embeddings": 4096}
    )
    ended = threading.Event()

    def sample() -> None:
        with pytest.raises(SamplingStopped):
            at.sample("odd", n_examples=32)
        ended.set()

    threading.Thread(target=sample, daemon=True).start()
    while at.server.progress.tokens < 10:
        time.sleep(0.01)
    began = time.monotonic()
    at.worker.shutdown()

    assert ended.wait(30)
    # The batch would take minutes.
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "error",
    [CancelledError(), ConnectionError("closed"), TokenUnknown("7"), LessonFailed("x", "ended")],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("call", ["sample_batch", "evaluate_lesson"])
def test_an_error_after_a_shutdown_is_no_failure_of_the_environment(
    bench: MakeBench, error: Exception, call: str
) -> None:
    at = bench({"reverse": REVERSE})
    own = {"eval_type": "eval"} if call == "evaluate_lesson" else {"mode": "train"}
    sizes = {"n_examples": 2, "n_generations": 2, "policy_version": (1, 100), "worker_id": "w"}

    class Closed:
        def sample(self, policy: PolicyContext, request: RolloutRequest) -> Sampled:
            del policy, request
            at.worker.shutdown()
            raise error

    at.worker.load_environment = lambda _: Closed()
    with pytest.raises(SamplingStopped):
        getattr(at.worker, call)("reverse", rng=Draw(0), **own, **sizes)

    assert at.curriculum.outcomes == []
    assert at.events.pop() == []


def test_rollouts_have_the_weights_version_of_each_token(bench: MakeBench) -> None:
    at = bench(
        {"odd": odd("Endless")}, model={"tokenizer": "bytes", "max_position_embeddings": 1024}
    )
    tensors = {name: value.numpy() for name, value in named_tensors(at.model)}

    def update() -> None:
        while at.server.progress.tokens < 20:
            time.sleep(0.005)
        at.server.update_weights(tensors, (1, 101))

    threading.Thread(target=update, daemon=True).start()
    batch, _ = at.sample("odd", n_examples=2)

    versions = {version for rollout in batch.rollouts for version in rollout.versions if version}
    assert versions == {(1, 100), (1, 101)}
    assert batch.policy_version == (1, 100)

"""Lessons of the real verifiers package: its task sets, tools and rewards with our policy."""

import json
import signal
import threading
from typing import Any

import pytest

from rollouts.fleet.engine.tokenizers import ByteTokenizer
from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.errors import LessonFailed, SamplingStopped
from tests.partners.verifiers_bench import Bench, MakeBench
from tests.unit.rollouts.fleet.engine.small_models import logprobs

pytestmark = pytest.mark.partner

ADDING: dict[str, Any] = {"taskset": {"id": "adding-tasks"}}
WEIGHING: dict[str, Any] = {"taskset": {"id": "weighing-tasks"}}


def own_texts(at: Bench, rollout: Any) -> list[str]:
    """Return the text of each turn of the policy."""
    turns: list[list[int]] = [[]]
    for token, is_own in zip(rollout.tokens, rollout.is_own, strict=True):
        if is_own:
            turns[-1].append(token)
        elif turns[-1]:
            turns.append([])
    return [at.tokenizer.decode(turn) for turn in turns if turn]


def test_a_single_turn_set_has_the_policys_tokens_and_logprobs(bench: MakeBench) -> None:
    at = bench(env=ADDING)

    batch, metrics = at.sample()

    assert [len(group.rollouts) for group in batch.groups] == [2, 2], at.events.pop()
    assert metrics["env.right"] == sum(one.reward for one in batch.rollouts) / 4
    assert metrics["env.turns"] == 1
    assert metrics["env.reply_length"] > 0
    for rollout in batch.rollouts:
        assert rollout.prompt.startswith("user\n")
        assert 1 <= rollout.own_tokens <= 12
        assert set(rollout.versions) == {None, (1, 100)}
        expected = logprobs(at.model, list(rollout.tokens))
        for place, (token, is_own) in enumerate(zip(rollout.tokens, rollout.is_own, strict=True)):
            drawn = float(expected[place - 1, token]) if is_own else 0.0
            assert rollout.logprobs[place] == pytest.approx(drawn, abs=1e-3)


def test_equal_draws_give_equal_rollouts_and_a_pass_has_each_task_once(
    bench: MakeBench,
) -> None:
    at = bench(env=ADDING, kwargs={"eval_select": {"include": {"idx": ["0:2"]}}})

    first, _ = at.sample(n_examples=6)
    again, _ = at.sample(n_examples=6)
    other, _ = at.sample(n_examples=6, rng=Draw(8))
    evaluated, _ = at.sample(n_examples=4, mode="eval")

    tokens = [[rollout.tokens for rollout in batch.rollouts] for batch in (first, again, other)]
    assert tokens[0] == tokens[1] != tokens[2]
    assert len({group.example for group in first.groups}) == 6
    assert len({group.example for group in evaluated.groups}) == 2


def weigh(prompt: str) -> str:
    """Return a tool call, then the result of the tool."""
    if "<tool_response>" not in prompt:
        box = prompt.rsplit("How heavy is the ", 1)[1].split()[0]
        call = {"name": "scale_toolset_weigh", "arguments": {"box": box}}
        return f"<tool_call>\n{json.dumps(call)}\n</tool_call>"
    return prompt.rsplit("<tool_response>\n", 1)[1].split("\n")[0]


def test_a_set_with_tools_takes_several_turns(bench: MakeBench) -> None:
    at = bench(weigh, env=WEIGHING)

    batch, metrics = at.sample()

    assert batch is not None, at.events.pop()
    assert [rollout.reward for rollout in batch.rollouts] == [1.0] * 4
    assert metrics["env.turns"] == 2
    for rollout in batch.rollouts:
        first, second = own_texts(at, rollout)
        assert "scale_toolset_weigh" in first
        assert second.endswith(" kg")
        assert rollout.is_correct
        own = [
            logprob
            for logprob, is_own in zip(rollout.logprobs, rollout.is_own, strict=True)
            if is_own
        ]
        assert max(own) == -0.5


def test_a_rollout_of_several_sequences_gives_its_group_one_of_them(bench: MakeBench) -> None:
    at = bench(env=ADDING | {"agent": {"harness": {"id": "compacting-chat"}}})

    batch, metrics = at.sample(n_examples=4, n_generations=4)
    again, _ = at.sample(n_examples=4, n_generations=4)

    assert batch is not None, at.events.pop()
    assert [len(group.rollouts) for group in batch.groups] == [4] * 4
    assert (metrics["env.turns"], metrics["env.sequences"]) == (3, 2)
    assert [one.tokens for one in batch.rollouts] == [one.tokens for one in again.rollouts]
    turns = [len(own_texts(at, rollout)) for rollout in batch.rollouts]
    assert set(turns) == {1, 2}
    for rollout, count in zip(batch.rollouts, turns, strict=True):
        assert ("So far:" in rollout.prompt) == (count == 2)
        expected = logprobs(at.model, list(rollout.tokens))
        for place, (token, is_own) in enumerate(zip(rollout.tokens, rollout.is_own, strict=True)):
            drawn = float(expected[place - 1, token]) if is_own else 0.0
            assert rollout.logprobs[place] == pytest.approx(drawn, abs=1e-3)


def test_several_runs_of_trained_agents_drop_the_group(bench: MakeBench) -> None:
    at = bench(lambda _: "no", env=ADDING | {"id": "best-of-n", "n": 2})

    assert at.sample(n_examples=1) == (None, None)

    [event] = at.events.pop()
    assert event.kind == "rollout_failed"
    assert event.message.endswith("2 runs of trained agents (agent, agent), must be 1")


def test_turns_have_the_version_that_sampled_them(bench: MakeBench) -> None:
    def advance(prompt: str) -> str:
        answer = weigh(prompt)
        at.server.version = (1, 101) if "<tool_call>" not in answer else (1, 100)
        return answer

    at = bench(advance, env=WEIGHING)
    batch, _ = at.sample(n_examples=1, n_generations=1)

    [rollout] = batch.rollouts
    assert [version for version in dict.fromkeys(rollout.versions) if version] == [
        (1, 100),
        (1, 101),
    ]
    assert batch.policy_version == (1, 100)


def test_the_lesson_limits_the_turns(bench: MakeBench) -> None:
    at = bench(weigh, env=WEIGHING, kwargs={"max_turns": 1})

    batch, metrics = at.sample()

    assert batch is not None, at.events.pop()
    assert metrics["env.turns"] == 1
    assert all(rollout.is_truncated and not rollout.reward for rollout in batch.rollouts)


@pytest.mark.parametrize(
    ("how", "settings", "kind", "text"),
    [
        ("raise", {}, "rollout_failed", "no cheese"),
        ("hang", {"rollout_seconds": 3}, "rollout_failed", "not completed within 3 s"),
        ("nan", {}, "rollout_failed", "the reward is nan, must be finite"),
        ("raise", {"context": 24}, "prompt_too_long", "maximum context length (23)"),
    ],
)
def test_a_failed_rollout_drops_its_group_and_is_reported(
    bench: MakeBench, how: str, settings: dict[str, Any], kind: str, text: str
) -> None:
    env = {"taskset": {"id": "failing-tasks", "how": how}}
    at = bench(lambda _: "no", env=env, **settings)

    assert at.sample(n_examples=1) == (None, None)

    [event] = at.events.pop()
    assert (event.kind, text in event.message) == (kind, True), event.message


def test_a_crash_of_the_host_names_its_last_output_and_the_next_batch_starts_another(
    bench: MakeBench,
) -> None:
    at = bench(lambda _: "no", env={"taskset": {"id": "failing-tasks", "how": "exit"}})

    for _ in range(2):
        with pytest.raises(LessonFailed, match=r"exit code 3: .*out of cheese") as crash:
            at.sample(n_examples=1)
        assert crash.value.kind == "environment_failed"


def test_output_of_an_environment_does_not_disturb_the_protocol(bench: MakeBench) -> None:
    at = bench(lambda _: "no", env={"taskset": {"id": "failing-tasks", "how": "print"}})

    batch, _ = at.sample(n_examples=1)

    assert [rollout.reward for rollout in batch.rollouts] == [0.25, 0.25]


@pytest.mark.parametrize(
    ("env", "kwargs", "kind", "text"),
    [
        ({"taskset": {"id": "chess-tasks"}}, {}, "dependency_missing", "chess-tasks"),
        ({"taskset": {"id": "adding-tasks", "size": 3}}, {}, "environment_kwargs", "size"),
        (ADDING, {"select": {"limit": 0}}, "environment_kwargs", "limit"),
        (ADDING, {"chess": 1}, "environment_kwargs", "chess"),
    ],
)
def test_an_invalid_environment_has_a_reason(
    bench: MakeBench, env: dict[str, Any], kwargs: dict[str, Any], kind: str, text: str
) -> None:
    at = bench(lambda _: "no", env=env, kwargs=kwargs)

    with pytest.raises(LessonFailed, match=text) as refused:
        at.sample()

    assert refused.value.kind == kind


def test_the_tokenizer_must_be_the_checkpoints(bench: MakeBench) -> None:
    at = bench(lambda _: "no", env=ADDING)
    at.worker._tokenizer = ByteTokenizer()

    with pytest.raises(LessonFailed, match="requires a checkpoint") as refused:
        at.sample()

    assert refused.value.kind == "tokenizer_unusable"


def test_a_stop_ends_the_batch_and_the_host(bench: MakeBench) -> None:
    at = bench(lambda _: "no", env={"taskset": {"id": "failing-tasks", "how": "hang"}})
    at.worker.load_environment("set")
    host = at.worker._environments["set"]._host._process  # type: ignore[attr-defined]

    threading.Timer(1.0, at.worker.shutdown).start()
    with pytest.raises((SamplingStopped, LessonFailed)):
        at.sample(n_examples=1)

    assert host.wait(5) == -signal.SIGKILL

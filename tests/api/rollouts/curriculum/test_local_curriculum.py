"""A curriculum in one process assigns, counts and decides as the platform does."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from rolldeck.lessons import LessonOutcome, OutcomeReceipt
from rollouts.curriculum.models import Evaluation
from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.language_policy import policy_of
from rollouts.fleet.groups.local_curriculum import LocalCurriculum
from rollouts.fleet.groups.outcomes import Lease
from rollouts.fleet.groups.rollout_manager import RolloutManager
from rollouts.fleet.groups.worker import GroupRolloutWorker
from runs.config.rules.language_config import LanguageConfig
from tests.lesson_factories import Class, language, lesson
from tests.unit.rollouts.fleet.groups.small_checkpoints import LESSONS, make_checkpoint

pytestmark = pytest.mark.django_db

FLAT = {"plateau_window": 8}
CHAIN = {
    "a": lesson(**FLAT),
    "b": lesson("a", group_size=2, **FLAT),
    "c": lesson("a", prompts_per_batch=5, **FLAT),
}
ROUNDS = [(20, 0.4), (32, 1.0), (32, 1.0), (32, 1.0), (3, 0.2), (31, 0.5)]
"""Successes of 32 evaluated problems, and success rate of the training tasks that follow."""


def language_of(lessons: dict[str, Any], **fields: Any) -> LanguageConfig:
    return msgspec.convert(language(lessons, **fields)["language"], LanguageConfig)


@pytest.mark.parametrize("strategy", ["rolldeck", "marin"])
def test_tasks_states_and_changes_are_those_of_a_run(strategy: str) -> None:
    fields = {"strategy": strategy}
    fields["evaluation"] = {"evaluates_locked": True, "graduated_every_rounds": 1}
    run = Class(CHAIN, **fields)
    local = LocalCurriculum(language_of(CHAIN, **fields), seed=7)
    changes = 0
    for number, (successes, rate) in enumerate(ROUNDS):
        run.publish(5 * number)
        while (task := run.task())["kind"] == "evaluate":
            answer = run.finish(task, successes=successes).json()
            body = run.outcome(
                [1.0] * successes + [0.0] * (32 - successes), mode="eval", evaluation="x"
            )
            receipt = local.record(task["lesson"], msgspec.convert(body, LessonOutcome))
            assert receipt.changes == answer["changes"]
            changes += len(receipt.changes)
        for place in range(6):
            task = run.task() if place else task
            mine = msgspec.to_builtins(local.next_task())
            assert mine == task
            answers = task["examples"] * task["generations"]
            right = round(rate * answers)
            rewards = [1.0] * right + [0.0] * (answers - right)
            more = {"generations": task["generations"]}
            body = run.outcome(rewards, **more)
            answer = run.post(f"lessons/{task['lesson']}/outcomes", body).json()
            receipt = local.record(task["lesson"], msgspec.convert(body, LessonOutcome))
            assert receipt.changes == answer["changes"]
            changes += len(receipt.changes)
        local_states = local.states()
        for name, row in run.lessons().items():
            state = local_states[name]
            assert (state.status, state.trained) == (row["status"], row["samples"])
            assert state.success == pytest.approx(row["success"])
            assert state.probability == pytest.approx(row["probability"])
    assert changes >= 2


def test_an_evaluated_curriculum_has_the_figures_of_the_platform(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path / "small")
    evaluation = {"examples": 32, "generations": 2, "temperature": 1.0}
    run = Class(LESSONS, evaluation=evaluation)
    config = language_of(LESSONS, evaluation=evaluation)

    class Reports:
        """The outcomes of a fleet's worker, reported over the API."""

        def record(self, name: str, outcome: LessonOutcome) -> OutcomeReceipt:
            answer = run.post(f"lessons/{name}/outcomes", msgspec.to_builtins(outcome))
            assert answer.status_code == 200, answer.content
            return msgspec.convert(answer.json(), OutcomeReceipt)

    policy = policy_of(config, device="cpu", rows=64, checkpoint=checkpoint, version=(1, 0))
    worker = GroupRolloutWorker(
        config,
        server=policy.server,
        tokenizer=policy.tokenizer,
        context_tokens=policy.context_tokens,
        curriculum=Reports(),
        problem_seed=7,
    )
    while (task := run.task())["kind"] == "evaluate":
        worker.evaluate_lesson(
            task["lesson"],
            n_examples=task["examples"],
            eval_type="eval",
            rng=Draw(task["seed"], task["first_example"]),
            policy_version=(1, 0),
            worker_id="w0@1",
            n_generations=task["generations"],
            lease=Lease(task["evaluation"], task["fence"]),
        )
    worker.shutdown()
    with RolloutManager(config, checkpoint, seed=7) as manager:
        results = manager.evaluate_curriculum()

    rows = Evaluation.objects.filter(run=run.run, state="done")
    stored = dict(rows.values_list("lesson", "figures"))
    assert stored.keys() == results.keys() == LESSONS.keys()
    for name, (figures, _) in results.items():
        mine = msgspec.to_builtins(figures, str_keys=True)
        assert {**mine, "seconds": 0} == {**stored[name], "seconds": 0}

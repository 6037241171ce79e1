"""Sample language run: lessons, evaluations and trajectory groups."""

from datetime import datetime
from typing import Any, Final

from numpy.random import default_rng

from buffer.batches.services.leases import lease_batch
from buffer.ingest.services.pushes import accept_groups
from rolldeck.lessons import LessonOutcome, Sample, TaskRequest
from rollouts.curriculum.schemas import LessonSteering
from rollouts.curriculum.services.outcomes import count_outcome
from rollouts.curriculum.services.steering import steer_lesson
from rollouts.curriculum.services.tasks import next_lesson_task
from rollouts.metrics.services.measuring import measure_run
from runs.lifecycle.models import Run
from runs.lifecycle.services.lifecycle import create
from runs.lifecycle.services.registry import register_trainer
from tests.sample_runs import curves
from tests.sample_runs.fake_fleet import FakeFleet
from tests.sample_runs.fleet_runs import TRAINER, complete, date_batches, measure, publish, train_on
from tests.sample_runs.groups import scored
from tests.sample_runs.texts import Problem, reversal
from tests.sample_runs.timeline import (
    ACTOR,
    METRIC_STEPS,
    VERSIONS,
    RunTimeline,
    owner,
    worker_id,
)

WORKER: Final = worker_id(0)
EVALUATED: Final = 64
ANSWERS: Final = 4
"""Answers to each problem of an evaluation."""
GROUP: Final = 8
LESSONS: Final[dict[str, int]] = {
    "reverse-4-letters": 4,
    "reverse-8-letters": 8,
    "reverse-12-letters": 12,
}
SUMS: Final = "sums-2-digits"


def write(timeline: RunTimeline) -> Run:
    """Write the whole run, from its first lesson to its end."""
    run = create(
        name=timeline.name,
        config=_config(),
        created_by=owner(),
        tags=("grpo", "lessons"),
        now=timeline.began_at,
    )
    fleet = FakeFleet.launched(run, timeline=timeline, workers=2)
    register_trainer(run_id=run.pk, identity=TRAINER, name="grpo", now=timeline.at(0.02))
    random = timeline.random
    many = VERSIONS
    step = timeline.length * 0.95 / many
    for version in range(many):
        at, done = timeline.at(0.03 + 0.95 * version / many), version / (many - 1)
        publish(run, version * 5, random=random, now=at)
        found = [
            (name, "train", random.binomial(1, _skill(name, done), 12) * 1.0) for name in LESSONS
        ]
        fleet.report(at=at, policy_step=version * 5, returns=found, seconds=60)
        _evaluate(run, version * 5, done=done, now=at)
        _micro_evaluate(run, version * 5, done=done, now=at)
        _roll_out(run, timeline, version * 5, done=done, now=at)
        lease = lease_batch(run_id=run.pk, identity=TRAINER)
        if lease is not None:
            train_on(run, lease.batch, at=at + step * 0.2, lasts=step * random.uniform(0.5, 0.7))
        measure_run(run_id=run.pk, now=at + step * 0.95)
        if version == many // 2:
            _steer(run, now=at + step * 0.96)
    date_batches(run, timeline)
    measure(run, timeline, curves.grpo_metrics(random, METRIC_STEPS // 2))
    run.refresh_from_db()
    complete(run, timeline)
    return run


def _config() -> dict[str, Any]:
    lessons: dict[str, Any] = {}
    for name, letters in LESSONS.items():
        requires = [{"lesson": [*lessons][-1], "min_success": 0.5}] if lessons else []
        lessons[name] = {
            "spec": "task:reverse",
            "kwargs": {"length": 3, "letters": letters},
            "requires": requires,
            "stop_success": 0.85,
        }
    lessons[SUMS] = {"spec": "task:addition", "kwargs": {"digits": 2}}
    evaluation = {"examples": EVALUATED, "generations": ANSWERS, "every_train_steps": 25}
    return {
        "language": {"lessons": lessons, "group_size": GROUP, "evaluation": evaluation},
        "buffer": {"batch_size": 16, "max_staleness": 10, "off_policy_tolerance": 2.0},
    }


def _skill(lesson: str, done: float) -> float:
    """Return the success rate of a lesson at the given part of the run, 0 to 1."""
    if lesson == SUMS:
        return 0.1 + 0.25 * done
    late = {name: 0.28 * place for place, name in enumerate(LESSONS)}[lesson]
    return min(0.97, max(0.06, 0.15 + 2.4 * (done - late)))


def _evaluate(run: Run, step: int, *, done: float, now: datetime) -> None:
    """Complete every due evaluation."""
    request = TaskRequest(worker=WORKER, epoch=1, policy_step=step)
    while True:
        task = next_lesson_task(run_id=run.pk, request=request, now=now)
        if task.kind != "evaluate":
            return
        skill = _skill(task.lesson, done)
        drawn = default_rng([step, len(task.lesson)]).random(EVALUATED * ANSWERS)
        outcome = _outcome(
            f"{task.lesson}-eval-{step}",
            [bool(one < skill) for one in drawn],
            step=step,
            mode="eval",
            generations=ANSWERS,
            evaluation=task.evaluation,
            fence=task.fence,
            samples=[
                Sample(prompt="abc=", response="cba", reward=1.0, is_correct=True),
                Sample(prompt="bca=", response="abc", reward=0.0, is_correct=False),
            ],
        )
        count_outcome(run_id=run.pk, lesson=task.lesson, outcome=outcome, now=now)


def _micro_evaluate(run: Run, step: int, *, done: float, now: datetime) -> None:
    """Record a micro-evaluation of each open lesson."""
    for name in (*LESSONS, SUMS):
        skill = _skill(name, done)
        if name != SUMS and skill <= 0.06:
            continue
        right = default_rng([step, len(name)]).binomial(16, skill)
        key, successes = f"{name}-micro-{step}", [place < right for place in range(16)]
        outcome = _outcome(key, successes, step=step, mode="micro_eval")
        count_outcome(run_id=run.pk, lesson=name, outcome=outcome, now=now)


def _steer(run: Run, *, now: datetime) -> None:
    """Lower the weight of the sums on behalf of a person."""
    body = LessonSteering(weight_factor=0.5, reason="sums drown the reversals")
    steer_lesson(run_id=run.pk, lesson=SUMS, body=body, actor=ACTOR, now=now)


def _roll_out(run: Run, timeline: RunTimeline, step: int, *, done: float, now: datetime) -> None:
    """Push groups of each open lesson, and record their outcomes."""
    random = default_rng([step, len(timeline.name)])
    right = [place % 8 == 0 and done > 0.4 for place in range(2 * GROUP)]
    sums = _outcome(f"{SUMS}-train-{step}", right, step=step, generations=GROUP, tokens=96)
    count_outcome(run_id=run.pk, lesson=SUMS, outcome=sums, now=now)
    for name, letters in LESSONS.items():
        skill = _skill(name, done)
        if skill <= 0.06:
            continue
        problems = [reversal(random, GROUP, letters=letters, skill=skill) for _ in range(2)]
        groups = [
            scored(
                problem,
                random=random,
                policy_step=step,
                has_advantages=True,
                more=_about(problem, name, step, place),
            )
            for place, problem in enumerate(problems)
        ]
        run.refresh_from_db()
        accept_groups(run=run, groups=groups, producer=WORKER, now=now)
        successes = [score > 0 for problem in problems for score in problem.scores]
        outcome = _outcome(
            f"{name}-train-{step}", successes, step=step, generations=GROUP, tokens=64, seconds=0.8
        )
        count_outcome(run_id=run.pk, lesson=name, outcome=outcome, now=now)


def _about(problem: Problem, lesson: str, step: int, place: int) -> dict[str, Any]:
    """Return the fields that a worker adds to a group's tokens."""
    return {
        "lesson": lesson,
        "worker": WORKER,
        "example": f"{lesson}/{step + place}",
        "is_correct": [score > 0 for score in problem.scores],
        "is_truncated": [place == 1 and index == 0 for index in range(len(problem.scores))],
    }


def _outcome(key: str, successes: list[bool], *, step: int, **fields: Any) -> LessonOutcome:
    plain: dict[str, Any] = {"mode": "train", "generations": 1}
    return LessonOutcome(
        key=key,
        worker=WORKER,
        epoch=1,
        policy_step=step,
        rewards=[float(one) for one in successes],
        successes=successes,
        **plain | fields,
    )

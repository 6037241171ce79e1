"""No problem of a lesson is skipped, and none is trained on twice, whatever ends."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from buffer.items.models import Batch, TrajectoryGroup
from buffer.problems.models import LessonProblem
from rolldeck import wire
from rolldeck.group_encoding import pack_group
from rollouts.control.models import Fleet, FleetWorker
from rollouts.curriculum.models import Curriculum, Lesson
from runs.events.models import RunEvent
from runs.lifecycle.models import PolicyVersion, Run
from tests.lesson_factories import Class, lesson

pytestmark = pytest.mark.django_db
ROWS = 6


@pytest.fixture
def lessons() -> Class:
    """A lesson of tasks of two problems, whose evaluations are done."""
    given = Class({"a": lesson()})
    given.evaluate_all(successes=0)
    forget(given)
    return given


def forget(lessons: Class) -> None:
    """Begin again with the first problem."""
    LessonProblem.objects.filter(run=lessons.run).delete()
    Lesson.objects.filter(run=lessons.run).update(examples=0)


def held(task: dict[str, Any]) -> dict[str, list[int]]:
    first = task["first_example"]
    return {task["lesson"]: list(range(first, first + task["examples"]))}


def push(lessons: Class, numbers: list[int], *, name: str = "a", **fields: Any) -> Any:
    """Push a group for each problem, as a worker does."""
    content = {
        "tokens": [[1, 2], [1, 3], [1, 4], [1, 5]],
        "masks": [[-100, 2], [-100, 3], [-100, 4], [-100, 5]],
        "scores": [0.0, 1.0, 0.0, 1.0],
        "epoch": lessons.epoch,
        "policy_step": lessons.step,
        **fields,
    }
    groups = [wire.encode(pack_group(content)) for _ in numbers]
    return lessons.push(wire.encode(wire.GroupPush(groups=groups, lesson=name, problems=numbers)))


def states(name: str = "a") -> dict[int, str]:
    rows = LessonProblem.objects.filter(lesson=name).order_by("number")
    return dict(rows.values_list("number", "state"))


def later(lessons: Class, **fields: Any) -> dict[str, Any]:
    """Return the next task after the groups of problems were followed."""
    Curriculum.objects.update(followed_at=None)
    return lessons.task(**fields)


def numbers_of(task: dict[str, Any]) -> list[int]:
    return held(task)["a"]


def drop_groups(reason: str) -> None:
    TrajectoryGroup.objects.update(state="dropped", drop_reason=reason)


def serve_groups(lessons: Class, *, step: int) -> None:
    batch = Batch.objects.create(
        run=lessons.run,
        kind="groups",
        ordinal=Batch.objects.count() + 1,
        state="confirmed",
        epoch=lessons.epoch,
        policy_step=step,
        leased_at=datetime.now(UTC),
        lease_expires_at=datetime.now(UTC),
        items=1,
        sequences=4,
        size_bytes=1,
        composition={},
        staleness={},
    )
    queued = TrajectoryGroup.objects.filter(state="queued")
    queued.update(state="served", batch=batch, position=0)


def test_problems_that_a_worker_no_longer_has_are_assigned_again(lessons: Class) -> None:
    first, second = lessons.task(), lessons.task()
    assert (numbers_of(first), numbers_of(second)) == ([0, 1], [2, 3])

    # The answer with the first task was lost, or its outcome.
    again = lessons.task(held=held(second))

    assert (numbers_of(again), again["attempt"]) == ([0], 2)
    assert again["seed"] != first["seed"]
    assert numbers_of(lessons.task(held={"a": [0, 2, 3]})) == [1]
    assert numbers_of(lessons.task(held={"a": [0, 1, 2, 3]})) == [4, 5]
    [event] = RunEvent.objects.filter(kind="problems_returned")
    assert event.message == "problems of w0@1 are assigned again: 2 of a"


def test_problems_of_a_lost_worker_are_assigned_again(lessons: Class) -> None:
    lessons.task(worker="w0@dead")
    lessons.task(worker="w1@alive")
    LessonProblem.objects.update(leased_at=datetime.now(UTC) - timedelta(minutes=2))
    fleet = Fleet.objects.create(
        run=lessons.run, observed_at=datetime.now(UTC), incarnation="1-a", actor_name="m"
    )
    for index, incarnation in enumerate(["new", "alive"]):
        FleetWorker.objects.create(
            fleet=fleet,
            index=index,
            incarnation=incarnation,
            state="running",
            heartbeat_at=datetime.now(UTC),
        )

    assert numbers_of(later(lessons, worker="w0@new")) == [0]
    assert numbers_of(lessons.task(worker="w0@new")) == [1]
    assert states()[2] == "leased"


def test_a_worker_that_no_report_names_yet_keeps_its_problems(lessons: Class) -> None:
    Fleet.objects.create(
        run=lessons.run, observed_at=datetime.now(UTC), incarnation="1-a", actor_name="m"
    )
    lessons.task(worker="w0@young")

    assert numbers_of(later(lessons, worker="w1@young")) == [2, 3]


def test_a_group_answers_its_problem_once(lessons: Class) -> None:
    lessons.task()
    assert push(lessons, [0]).json()["received"] == 1

    receipt = push(lessons, [0, 1]).json()

    assert (receipt["received"], receipt["dropped"]) == (1, {"repeated": 1})
    assert states() == {0: "answered", 1: "answered"}
    kept = TrajectoryGroup.objects.exclude(state="dropped")
    assert set(kept.values_list("pk", flat=True)) == set(
        LessonProblem.objects.values_list("group", flat=True)
    )


def test_a_late_group_of_a_lost_worker_counts_if_it_is_the_first(lessons: Class) -> None:
    lessons.task(worker="w0@dead")
    lessons.task(worker="w0@dead", held={})
    assert states() == {0: "leased", 1: "returned"}

    assert push(lessons, [0, 1]).json()["dropped"] == {}

    assert states() == {0: "answered", 1: "answered"}
    assert push(lessons, [0]).json()["dropped"] == {"repeated": 1}


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        ("stale_version", "returned"),
        ("stale_age", "returned"),
        ("stale_epoch", "returned"),
        ("corrupt", "returned"),
        ("capacity", "returned"),
        ("incomplete", "returned"),
        ("future", "returned"),
        ("reset", "returned"),
        ("zero_variance", "skipped"),
        ("overlong", "skipped"),
        ("muted", "skipped"),
        ("poison", "skipped"),
        ("discarded", "skipped"),
        ("short_group", "returned"),
        ("killed", "skipped"),
        ("drained", "skipped"),
    ],
)
def test_a_dropped_group_returns_its_problem_unless_a_rule_decides(
    lessons: Class, reason: str, state: str
) -> None:
    lessons.task()
    push(lessons, [0])
    drop_groups(reason)

    task = later(lessons, held={"a": [1]})

    assert numbers_of(task) == ([0] if state == "returned" else [2, 3])
    row = LessonProblem.objects.get(number=0)
    assert row.state == ("leased" if state == "returned" else "skipped")
    assert row.reason == reason


def test_groups_dropped_on_arrival_return_their_problems(lessons: Class) -> None:
    lessons.publish(20)
    lessons.evaluate_all(successes=0)
    forget(lessons)
    task = lessons.task()

    assert push(lessons, numbers_of(task), policy_step=0).json()["dropped"] == {"stale_version": 2}

    assert numbers_of(later(lessons, held={})) == numbers_of(task)


def test_a_worker_names_the_problems_without_a_group(lessons: Class) -> None:
    lessons.task()
    lessons.task()
    lost = {"zero_variance": [0], "environment_failed": [1], "new_epoch": [2]}

    assert lessons.report("a", [], lost_problems=lost, error="no room").status_code == 200

    assert states() == {0: "skipped", 1: "returned", 2: "returned", 3: "leased"}
    assert LessonProblem.objects.get(number=2).attempts == 0
    assert [numbers_of(lessons.task()) for _ in range(3)] == [[1], [2], [4, 5]]


def test_attempts_during_an_outage_of_the_engine_do_not_count(lessons: Class) -> None:
    lost = {"inference_failed": [0, 1]}
    for _ in range(5):
        assert (numbers_of(task := lessons.task()), task["attempt"]) == ([0, 1], 1)
        lessons.report("a", [], lost_problems=lost)
    lessons.task()

    # Now the engine fails on these problems only.
    for attempt in (2, 3):
        lessons.task()
        push(lessons, [2 * attempt - 2])
        lessons.report("a", [], lost_problems=lost)
        assert (numbers_of(task := lessons.task()), task["attempt"]) == ([0, 1], attempt)
    lessons.task()
    push(lessons, [8])
    lessons.report("a", [], lost_problems=lost)

    assert (states()[0], states()[1]) == ("skipped", "skipped")
    assert LessonProblem.objects.get(number=0).reason == "inference_failed"


def test_another_worker_cannot_name_them(lessons: Class) -> None:
    lessons.task(worker="w1@1")

    lessons.report("a", [], lost_problems={"zero_variance": [0]})

    assert states() == {0: "leased", 1: "leased"}


def test_a_problem_that_is_lost_three_times_is_skipped_and_named(lessons: Class) -> None:
    tasks = [lessons.task(held={"a": [1]}) for _ in range(4)]

    assert [(numbers_of(task), task["attempt"]) for task in tasks] == [
        ([0, 1], 1),
        ([0], 2),
        ([0], 3),
        ([2, 3], 1),
    ]
    assert states()[0] == "skipped"
    [event] = RunEvent.objects.filter(kind="problems_skipped")
    assert event.message == (
        "problems 0 of lesson a are skipped: 3 attempts ended without a group, the last one by "
        "worker_lost"
    )
    assert event.level == "warning"
    assert event.details == {"lesson": "a", "numbers": [0], "reason": "worker_lost"}
    [row] = lessons.get("lessons/a/problems", state="skipped")["results"]
    assert (row["number"], row["attempts"], row["reason"]) == (0, 3, "worker_lost")


def test_the_run_ends_after_the_last_problem_has_a_group() -> None:
    lessons = Class({"a": lesson()}, max_rollouts=8)
    lessons.evaluate_all(successes=0)
    lessons.run.refresh_from_db()
    assert lessons.task()["reason"] == "the last problems are sampled"
    assert lessons.run.status == "running"
    numbers = sorted(states())
    push(lessons, numbers[:1])
    lessons.report("a", [], lost_problems={"zero_variance": numbers[1:]})

    assert lessons.task()["reason"] == "max_rollouts"


class TestResumedTrainer:
    """A trainer that goes on from an older version repeats what its policy has not seen."""

    def pass_over(self, lessons: Class) -> None:
        """Train on one task in each of three versions."""
        for step in range(3):
            lessons.publish(step)
            task = lessons.task()
            push(lessons, numbers_of(task))
            serve_groups(lessons, step=step)
        assert later(lessons, held={})["kind"] == "train"
        assert list(states().values())[:6] == ["trained"] * 6

    def resume(self, lessons: Class, step: int) -> None:
        PolicyVersion.objects.create(
            run=lessons.run,
            epoch=2,
            step=step,
            manifest={},
            size_bytes=1,
            sha256="",
            published_at=datetime.now(UTC),
        )
        lessons.publish(step, epoch=2)
        lessons.evaluate_all(successes=0)

    @pytest.mark.parametrize(
        ("step", "again"), [(2, [4, 5]), (1, [2, 3, 4, 5]), (3, []), (-1, [0, 1, 2, 3, 4, 5])]
    )
    def test_problems_of_later_batches_are_assigned_again(
        self, lessons: Class, step: int, again: list[int]
    ) -> None:
        self.pass_over(lessons)
        LessonProblem.objects.filter(number__gt=5).delete()
        self.resume(lessons, step)

        found: list[int] = []
        while (task := later(lessons))["attempt"] == 1 and numbers_of(task)[0] < 6:
            found += numbers_of(task)

        assert found == again

    def test_a_batch_acknowledged_just_before_is_repeated_too(self, lessons: Class) -> None:
        self.pass_over(lessons)
        LessonProblem.objects.filter(number__gt=5).delete()
        LessonProblem.objects.filter(number__gt=3).update(state="answered")

        self.resume(lessons, 2)

        assert numbers_of(later(lessons)) == [4, 5]

    def test_the_same_epoch_repeats_nothing(self, lessons: Class) -> None:
        self.pass_over(lessons)

        assert numbers_of(later(lessons))[0] > 5


class TestPasses:
    """Counts of the problems of each pass by state."""

    def test_every_problem_is_counted_once(self, lessons: Class) -> None:
        for _ in range(4):
            lessons.task()
        push(lessons, [0, 1, 2])
        lessons.report("a", [1.0, 0.0], lost_problems={"zero_variance": [3]}, pass_size=ROWS)
        serve_groups(lessons, step=0)
        later(lessons, held={"a": [4, 6, 7]})

        found = lessons.get("lessons/a/passes")["results"]

        assert [one["number"] for one in found] == [1, 0]
        first, second = found[1], found[0]
        assert first == {
            "number": 0,
            "size": ROWS,
            "unassigned": 0,
            "leased": 2,
            "returned": 0,
            "answered": 0,
            "trained": 3,
            "skipped": {"zero_variance": 1},
        }
        assert (second["leased"], second["unassigned"], second["size"]) == (2, 4, ROWS)
        assert lessons.lessons()["a"]["pass_size"] == ROWS

    def test_problems_of_an_ended_run_have_a_final_state(self, lessons: Class) -> None:
        lessons.task()
        lessons.task()
        push(lessons, [0])
        serve_groups(lessons, step=0)
        push(lessons, [1])
        TrajectoryGroup.objects.filter(state="queued").update(state="dropped", drop_reason="killed")
        lessons.report("a", [1.0], pass_size=4)
        Run.objects.filter(pk=lessons.run.pk).update(status="stopped")

        [found] = lessons.get("lessons/a/passes")["results"]

        assert (found["trained"], found["leased"]) == (1, 0)
        assert found["skipped"] == {"killed": 1, "run_ended": 2}

    def test_pages_have_their_own_passes(self, lessons: Class) -> None:
        for _ in range(9):
            lessons.task()
        lessons.report("a", [1.0], pass_size=ROWS)

        page = lessons.get("lessons/a/passes", limit=2)
        rest = lessons.get("lessons/a/passes", limit=2, cursor=page["next"])

        assert [one["leased"] for one in page["results"] + rest["results"]] == [6, 6, 6]
        assert rest["next"] is None

    def test_a_lesson_without_an_end_has_one(self, lessons: Class) -> None:
        lessons.task()

        [found] = lessons.get("lessons/a/passes")["results"]

        assert (found["number"], found["size"], found["leased"]) == (0, 2, 2)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"problems": [0], "lesson": "a"}, "problems"),
        ({"problems": [0, 1]}, "lesson"),
        ({"problems": [3, 3], "lesson": "a"}, "problems"),
        ({"problems": [], "lesson": "a"}, "problems"),
        ({"problems": [-1, 2], "lesson": "a"}, "problems[0]"),
        ({"problems": [0, 1], "lesson": "a\x00"}, "lesson"),
        ({"problems": [0, 1 << 60], "lesson": "a"}, "problems[1]"),
    ],
)
def test_a_push_with_wrong_problems_is_refused(
    lessons: Class, fields: dict[str, Any], field: str
) -> None:
    content = {"tokens": [[1, 2]], "masks": [[-100, 2]], "scores": [0.0]}
    groups = [wire.encode(pack_group(content))] * 2

    answer = lessons.push(wire.encode({"schema": wire.SCHEMA_VERSION, "groups": groups, **fields}))

    assert answer.status_code == 422, answer.content
    assert answer.json()["errors"][0]["field"] == field
    assert not TrajectoryGroup.objects.exists()


@pytest.mark.parametrize("held_", [{"a": [-1]}, {"a": [1 << 60]}, {"a": "0"}, {"a" * 65: []}, []])
def test_a_request_with_wrong_problems_is_refused(lessons: Class, held_: Any) -> None:
    body = {"worker": "w0@1", "epoch": 1, "policy_step": 0, "held": held_}

    answer = lessons.post("lessons/tasks", body)

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"].startswith("held")


def test_an_unknown_lesson_has_no_passes(lessons: Class) -> None:
    for path in ("lessons/b/passes", "lessons/b/problems"):
        with pytest.raises(AssertionError, match="the run has no lesson"):
            lessons.get(path)


def test_problems_of_a_locked_lesson_wait(lessons: Class) -> None:
    lessons.task()
    Run.objects.filter(pk=lessons.run.pk).update(status="paused")

    assert lessons.task(held={})["reason"] == "paused"

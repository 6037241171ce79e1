"""A tracker gets every value of a run of the platform, through failures of both."""

import itertools
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection
from pytest_django.live_server_helper import LiveServer
from rest_framework.test import APIClient

from buffer.inspect.services import digest_groups
from buffer.tokenizers.services import set_tokenizer
from rolldeck.errors import RolldeckError
from rolldeck.http import Backoff, Connection
from rolldeck.trackers.contract import (
    LifecycleEvent,
    RolloutSample,
    Scalar,
    TrackedBatch,
    TrackedRun,
    Tracker,
    TrackerError,
    TrackerRefusedError,
)
from rolldeck.trackers.following import FollowOptions, Totals, follow
from rolldeck.trackers.source import CursorFile, RunSource
from rolldeck.wire import GROUPS_TYPE
from rollouts.control.models import EpisodeWindow
from rollouts.metrics.models import MetricChunk, MetricSample
from rollouts.metrics.services.metrics import Figure, pack_metrics, store_figures
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.rules import RunStatus, RunVerb
from runs.lifecycle.services.lifecycle import archive, change_status
from tests.factories import NOON, bearer, make_outside_run, make_run, make_token
from tests.lesson_factories import Class, lesson, written_group
from tests.tokenizer_files import byte_level, content_of
from tests.unit.client.failing_server import Planned, Seen, serving

pytestmark = pytest.mark.django_db(transaction=True)

SOON = Backoff(first_seconds=0.01, most_seconds=0.01)


class KeptValues:
    """A tracker that keeps what it gets, after the given failures."""

    def __init__(self, *failures: TrackerError) -> None:
        self.failures = list(failures)
        self.runs: list[TrackedRun] = []
        self.scalars: list[Scalar] = []
        self.events: list[LifecycleEvent] = []
        self.rollouts: list[RolloutSample] = []
        self.ends: list[str] = []
        self.is_closed = False
        self.on_first_batch: Callable[[], object] = lambda: None

    def start(self, run: TrackedRun) -> None:
        self.runs.append(run)

    def record(self, batch: TrackedBatch) -> None:
        if self.failures:
            raise self.failures.pop(0)
        self.scalars += batch.scalars
        self.events += batch.events
        self.rollouts += batch.rollouts
        act, self.on_first_batch = self.on_first_batch, lambda: None
        act()

    def finish(self, status: str) -> None:
        self.ends.append(status)

    def close(self) -> None:
        self.is_closed = True

    def values(self, name: str) -> list[tuple[int, float]]:
        return [(one.step, one.value) for one in self.scalars if one.name == name]


class Follows:
    """Follows the run until it has ended, each time with the stored position."""

    def __init__(self, url: str, folder: Path, *, retry_for_seconds: float = 5) -> None:
        self._url, self._retry_for_seconds = url, retry_for_seconds
        self.options = FollowOptions(
            state=folder, tracker="kept", every_seconds=0.01, rollouts=4, backoff=SOON
        )

    def __call__(self, run: Run, tracker: Tracker, *exclude: str) -> Totals:
        token = make_token("read", run=run)[1]
        with Connection(self._url, token, retry_for_seconds=self._retry_for_seconds) as platform:
            source = RunSource(platform, run.name, exclude)
            return follow(source, lambda: tracker, self.options, threading.Event())


@pytest.fixture
def follows(live_server: LiveServer, tmp_path: Path) -> Follows:
    return Follows(live_server.url, tmp_path)


def log(run: Run, *figures: tuple[str, int, float]) -> None:
    store_figures(run_id=run.pk, figures=[Figure(*one) for one in figures], now=NOON)


def end(run: Run) -> None:
    change_status(run_id=run.pk, verb=RunVerb.KILL, actor="tests", now=NOON)


def test_samples_arrive_once_also_when_packed_between_two_processes(follows: Follows) -> None:
    run = make_outside_run()
    log(run, *[("loss", step, step / 4) for step in range(1500)], ("entropy", 0, math.nan))
    first, second = KeptValues(), KeptValues()
    first.on_first_batch = lambda: end(run)

    follows(run, first)
    pack_metrics(now=NOON + timedelta(hours=1))
    log(run, ("loss", 1500, 375.0))
    totals = follows(run, second)

    assert MetricChunk.objects.count() == 1
    assert first.values("loss") == [(step, step / 4) for step in range(1500)]
    assert math.isnan(first.values("entropy")[0][1])
    assert second.values("loss") == [(1500, 375.0)]
    assert (totals.scalars, totals.events, totals.status) == (1, 0, "stopped")
    assert (first.ends, second.ends, second.is_closed) == (["stopped"], ["stopped"], True)


def test_a_sample_that_is_stored_late_arrives(follows: Follows) -> None:
    run = make_outside_run()
    log(run, ("loss", 0, 0.0), ("loss", 1, 1.0), ("loss", 2, 2.0))
    late = MetricSample.objects.get(step=1)
    MetricSample.objects.filter(pk=late.pk).delete()
    tracker = KeptValues()

    def commit_late() -> None:
        late.save(force_insert=True)
        end(run)

    tracker.on_first_batch = commit_late
    follows(run, tracker)

    assert set(tracker.values("loss")) == {(0, 0.0), (1, 1.0), (2, 2.0)}


def test_a_tracker_that_fails_is_started_again_and_loses_nothing(
    follows: Follows, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_outside_run()
    log(run, ("loss", 0, 0.5))
    end(run)
    error = TrackerError.because("kept", "disk full")
    tracker = KeptValues(error, error)

    totals = follows(run, tracker)

    assert tracker.values("loss") == [(0, 0.5)]
    assert totals.scalars == 1
    assert len(tracker.runs) == 3
    assert "kept: disk full" in caplog.text
    assert "nothing is lost" in caplog.text


def test_a_platform_that_does_not_answer_delays_the_values(
    live_server: LiveServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = make_outside_run()
    log(run, *[("loss", step, float(step)) for step in range(5)])
    end(run)
    requests = itertools.count()

    def unreliable(request: Seen) -> Planned:
        if next(requests) in (1, 2, 4, 7, 9):
            return Planned(status=0)
        headers = {"Authorization": request.headers["Authorization"]}
        answer = httpx.get(live_server.url + request.path, headers=headers)
        return Planned(answer.status_code, answer.content)

    tracker = KeptValues()
    with serving(unreliable) as server:
        Follows(server.url, tmp_path, retry_for_seconds=0)(run, tracker)

    assert tracker.values("loss") == [(step, float(step)) for step in range(5)]
    assert tracker.ends == ["stopped"]
    assert caplog.text.count("nothing is lost") == 5


def test_a_refusal_ends_the_command_and_keeps_the_position(follows: Follows) -> None:
    run = make_outside_run()
    log(run, ("bad name", 0, 0.5), ("loss", 0, 0.25))
    end(run)

    with pytest.raises(TrackerRefusedError, match="bad name"):
        follows(run, KeptValues(TrackerRefusedError.because("kept", "bad name")))
    tracker = KeptValues()
    follows(run, tracker, "bad*")

    assert [one.name for one in tracker.scalars] == ["loss"]
    assert "stopped" in [event.kind for event in tracker.events]


def test_events_have_the_step_before_them_and_their_reason(follows: Follows) -> None:
    run = make_outside_run()
    log(run, ("loss", 7, 0.5))
    change_status(run_id=run.pk, verb=RunVerb.PAUSE, actor="alice", reason="lunch", now=NOON)
    end(run)
    tracker = KeptValues()

    follows(run, tracker)

    paused = next(event for event in tracker.events if event.kind == "paused")
    assert (paused.step, paused.message) == (7, "running → paused, by alice (lunch)")


def test_project_and_group_are_those_of_the_registration(follows: Follows) -> None:
    run = make_outside_run()
    Run.objects.filter(pk=run.pk).update(wandb_project="arithmetic", wandb_group="grpo")
    end(run)
    tracker = KeptValues()

    follows(run, tracker)

    (tracked,) = tracker.runs
    assert (tracked.project, tracked.group) == ("arithmetic", "grpo")
    assert tracked.name == f"words-{run.pk}"
    assert tracked.key.startswith(f"words-{run.pk}-")


def test_a_tracker_starts_once_a_trainer_has_registered(follows: Follows) -> None:
    run = make_run(name="words", kind=RunKind.OUTSIDE)
    tracker = KeptValues()

    def work() -> None:
        follows(run, tracker)
        connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.3)
    waits = thread.is_alive() and not tracker.runs

    Run.objects.filter(pk=run.pk).update(registered_at=NOON, wandb_project="late")
    end(run)
    thread.join(60)

    assert waits
    assert [one.project for one in tracker.runs] == ["late"]


def test_an_archived_run_is_followed_to_its_end(follows: Follows) -> None:
    run = make_outside_run()
    log(run, ("loss", 0, 0.5))
    tracker = KeptValues()

    def replace_run() -> None:
        log(run, ("loss", 1, 0.25))
        end(run)
        archive(run_id=run.pk, actor="tests", now=NOON)
        log(make_outside_run(), ("loss", 0, 99.0))

    tracker.on_first_batch = replace_run
    # A token of all runs: the name belongs to two of them.
    follows(Run(name=run.name), tracker)

    assert tracker.values("loss") == [(0, 0.5), (1, 0.25)]
    assert tracker.ends == ["stopped"]


def test_values_of_a_run_that_takes_over_the_name_are_discarded(
    follows: Follows, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_outside_run()
    log(run, ("loss", 0, 0.5))
    end(run)
    tracker = KeptValues()
    read = RunSource.batch

    def replaced_before(source: RunSource, *args: Any, **options: Any) -> Any:
        monkeypatch.setattr(RunSource, "batch", read)
        archive(run_id=run.pk, actor="tests", now=NOON)
        log(make_outside_run(), ("loss", 0, 99.0))
        return read(source, *args, **options)

    monkeypatch.setattr(RunSource, "batch", replaced_before)
    follows(Run(name=run.name), tracker)

    assert tracker.values("loss") == [(0, 0.5)]


def test_the_measurement_after_the_end_of_a_run_arrives(follows: Follows) -> None:
    run = make_outside_run()
    change_status(run_id=run.pk, verb=RunVerb.KILL, actor="tests", now=datetime.now(UTC))
    follows.options = replace(follows.options, last_seconds=0.5)
    tracker = KeptValues()
    tracker.on_first_batch = lambda: log(run, ("rolldeck/queue/depth", 3, 0.0))

    began = time.monotonic()
    follows(run, tracker)

    assert tracker.values("rolldeck/queue/depth") == [(3, 0.0)]
    assert time.monotonic() - began > 0.5


def test_reports_of_episodes_are_the_rollouts_of_a_fleet(follows: Follows) -> None:
    run = make_run(status=RunStatus.STOPPED)
    returns = {f"return_{name}": 20.5 for name in ("mean", "min", "max", "p10", "p50", "p90")}
    EpisodeWindow.objects.create(
        run=run,
        at=NOON,
        environment="gymnasium:CartPole-v1",
        worker=0,
        mode="train",
        seconds=1.0,
        count=2,
        return_sum=41.0,
        discounted_return_mean=9.0,
        length_mean=20.5,
        length_max=21,
        terminated=2,
        truncated=0,
        aborted=0,
        returns=[20.0, 21.0],
        lengths=[20, 21],
        policy_step=3,
        **returns,
    )
    tracker = KeptValues()

    follows(run, tracker)

    assert [(one.mode, one.score, one.step, one.environment) for one in tracker.rollouts] == [
        ("train", 20.5, 3, "gymnasium:CartPole-v1")
    ]


def answer(prompt: str, reward: float) -> dict[str, Any]:
    return {"prompt": prompt, "response": f"to {prompt}", "reward": reward, "is_correct": True}


def played(lessons: Class, step: int) -> None:
    """Push a group, an evaluation and a micro-evaluation of lesson a at a version."""
    lessons.publish(step)
    lessons.run.refresh_from_db()
    content = written_group(lessons.run, "a", "abcd>", ["dcba", "abcd"])
    path = f"/api/v1/runs/{lessons.run.name}/groups"
    pushed = APIClient().generic(
        "POST", path, content, content_type=GROUPS_TYPE, headers=lessons.worker
    )
    assert pushed.status_code == 200, pushed.content
    digest_groups(now=NOON)
    lessons.report("a", [1.0], mode="micro_eval", samples=[answer(f"micro {step}", 0.25)])
    task = lessons.task()
    if task["kind"] == "evaluate":
        answers = [answer(f"eval {step}.{place}", 1.0) for place in range(5)]
        lessons.finish(task, successes=32, samples=answers)


def test_rollouts_of_a_language_run_have_text_lesson_mode_and_step(follows: Follows) -> None:
    lessons = Class({"a": lesson(stop_success=0.8), "b": lesson("a")})
    lessons.report("a", [1.0] * 64)
    tracker = KeptValues()

    def play_more() -> None:
        played(lessons, 3)
        end(lessons.run)

    tracker.on_first_batch = play_more
    played(lessons, 2)
    follows(lessons.run, tracker)

    assert {one.environment for one in tracker.rollouts} == {"a"}
    by_mode: dict[str, list[tuple[int, float | None, str]]] = {}
    for one in tracker.rollouts:
        by_mode.setdefault(one.mode, []).append((one.step, one.score, one.text()))
    assert by_mode == {
        "train": [
            (step, score, f"prompt: abcd>\n\nresponse: {text}")
            for step in (2, 3)
            for score, text in ((0.0, "dcba"), (1.0, "abcd"))
        ],
        "eval": [
            (2, 1.0, f"prompt: eval 2.{place}\n\nresponse: to eval 2.{place}") for place in range(4)
        ],
        "micro_eval": [
            (step, 0.25, f"prompt: micro {step}\n\nresponse: to micro {step}") for step in (2, 3)
        ],
    }
    keys = [(one.mode, one.id, one.sequence) for one in tracker.rollouts]
    assert len(set(keys)) == len(keys)


def test_rollouts_of_an_outside_run_have_messages_or_decoded_tokens(follows: Follows) -> None:
    run, tokenizer = make_outside_run(), byte_level()
    set_tokenizer(run=run, content=content_of(tokenizer), actor="tests", now=NOON)
    question, answer = (tokenizer.encode(text).ids for text in ("2 + 2 = ", "你 4"))
    tokens = {"tokens": [question + answer], "masks": [[-100] * len(question) + answer]}
    said = [{"role": "user", "content": "Add."}, {"role": "assistant", "content": "Four."}]
    for more in ({}, {"messages": [said]}):
        pushed = APIClient().post(
            f"/api/v1/runs/{run.name}/groups",
            [tokens | {"scores": [1.0]} | more],
            format="json",
            headers=bearer("env", run=run),
        )
        assert pushed.status_code == 200, pushed.content
    digest_groups(now=NOON)
    end(run)
    tracker = KeptValues()

    follows(run, tracker)

    assert [one.text() for one in tracker.rollouts] == [
        "prompt: 2 + 2 = \n\nresponse: 你 4",
        "user: Add.\n\nassistant: Four.",
    ]


def test_changes_of_lessons_are_lifecycle_events(follows: Follows) -> None:
    lessons = Class({"a": lesson(stop_success=0.8), "b": lesson("a")})
    lessons.report("a", [1.0] * 64)
    lessons.finish(lessons.task(), successes=32)
    lessons.report("b", [], error="no simulator")
    end(lessons.run)
    tracker = KeptValues()

    follows(lessons.run, tracker)

    about_lessons = [one for one in tracker.events if one.kind.startswith("lesson")]
    assert [(one.kind, one.message.partition(",")[0]) for one in about_lessons] == [
        ("lesson_graduated", "a: active → graduated"),
        ("lesson_unlocked", "b: locked → active"),
        ("lesson_failed", "lesson b produced no rollouts; other lessons continue"),
    ]


def test_the_lessons_with_the_newest_micro_evaluations_are_sampled(follows: Follows) -> None:
    names = [f"lesson-{number}" for number in range(6)]
    lessons = Class({name: lesson() for name in names})
    for name in names:
        lessons.report(name, [1.0], mode="micro_eval", samples=[answer(name, 1.0)])
    end(lessons.run)
    follows.options = replace(follows.options, rollouts=3)
    tracker = KeptValues()

    follows(lessons.run, tracker)

    assert [one.environment for one in tracker.rollouts] == names[3:]


def test_a_position_belongs_to_one_process_and_one_run(follows: Follows) -> None:
    run = make_outside_run()
    end(run)
    follows(run, KeptValues())
    (path,) = follows.options.state.glob("*.json")

    with CursorFile(path, run_id=run.pk), pytest.raises(RolldeckError, match="in use"):
        follows(run, KeptValues())
    path.write_text("{}")
    with pytest.raises(RolldeckError, match="not a position"):
        follows(run, KeptValues())
    path.write_text('{"run_id": 999}')
    with pytest.raises(RolldeckError, match="belongs to run 999"):
        follows(run, KeptValues())

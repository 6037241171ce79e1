"""A user sees the state of each lesson of a language run, and its reason."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Locator, Page, expect

from rolldeck.trainer import Trainer
from tests.e2e.conftest import in_the_shell
from tests.e2e.pages import open_tab
from tests.e2e.simulated_manager import simulated_manager
from tests.server import ADMIN_TOKEN, Server

pytestmark = [
    pytest.mark.browser,
    pytest.mark.system,
    pytest.mark.full("one page in a browser; the journey is in test_dashboard.py"),
]

NAME = "words"
LESSONS: dict[str, Any] = {
    "reverse-2": {"spec": "task:reverse", "kwargs": {"length": 2}, "stop_success": 0.8},
    "reverse-4": {
        "spec": "task:reverse",
        "kwargs": {"length": 4},
        "requires": [{"lesson": "reverse-2"}],
    },
    "reverse-8": {
        "spec": "task:reverse",
        "kwargs": {"length": 8},
        "requires": [{"lesson": "reverse-4", "min_success": 0.6}],
    },
    "sums": {"spec": "task:addition", "kwargs": {"digits": 2}},
}
HOSTILE = "<b id=hostile>21</b>\u202e"


# One transaction, so that no reconciler sees a run that needs a fleet.
SEED = """
from django.db import transaction
from django.utils import timezone
from rolldeck.lessons import LessonOutcome, Sample, TaskRequest
from rollouts.curriculum.services.outcomes import count_outcome
from rollouts.curriculum.services.tasks import next_lesson_task
from runs.access.services.tokens import create_token
from runs.lifecycle.services.lifecycle import create
from runs.models import Run

now, samples = timezone.now(), [
    Sample(prompt="ab=", response="ba", reward=1.0, is_correct=True),
    Sample(prompt="12=", response=HOSTILE, reward=0.0, is_correct=False),
]
mixed = [True, False, True, True, False, False, True, False] * 4

def report_outcome(lesson, successes, step, mode="train", **fields):
    rewards = [float(one) for one in successes]
    key = f"{lesson}-{mode}-{step}-{fields.pop('turn', 0)}"
    outcome = LessonOutcome(key=key, worker="w0@1", mode=mode, epoch=1, policy_step=step,
                            rewards=rewards, successes=successes, **fields)
    count_outcome(run_id=run.pk, lesson=lesson, outcome=outcome, now=now)

def evaluate(step, counts):
    Run.objects.filter(pk=run.pk).update(status="running", epoch=1, policy_step=step)
    task_request = TaskRequest(worker="w0@1", epoch=1, policy_step=step)
    while True:
        task = next_lesson_task(run_id=run.pk, request=task_request, now=now)
        if task.kind != "evaluate":
            break
        successes = [place < counts[task.lesson] for place in range(64)]
        report_outcome(task.lesson, successes, step, "eval", generations=1,
                       evaluation=task.evaluation, fence=task.fence, samples=samples)

with transaction.atomic():
    run = create(name=NAME, config=CONFIG, actor="tests", now=now)
    evaluate(0, {"reverse-2": 30, "sums": 5})
    for turn in range(6):
        report_outcome("reverse-2", mixed, 0, generations=8, turn=turn)
        report_outcome("sums", [False] * 30 + [True, False], 0, generations=8, turn=turn)
    evaluate(20, {"reverse-2": 63, "sums": 22})
    report_outcome("reverse-4", mixed, 20, generations=8)
    evaluate(40, {"reverse-2": 63, "reverse-4": 31, "sums": 41})
    Run.objects.filter(pk=run.pk).update(status="stopped")
_, token = create_token(
    name="w", scopes=["worker"], run_id=run.pk, issuer="manager", now=now
)
print(token)
"""


@contextmanager
def two_lessons(server: Server, name: str) -> Iterator[None]:
    """A run with two lessons and a first version of its weights."""
    lessons = {one: LESSONS[one] for one in ("reverse-2", "sums")}
    config = {"language": {"lessons": lessons, "evaluation": {"examples": 64}}}
    with simulated_manager(server, name, config=config):
        with Trainer(server.url, name, ADMIN_TOKEN) as trainer:
            trainer.register()
            trainer.publish_weights({"w": np.zeros(1, dtype=np.float32)}, step=0)
        yield


@pytest.fixture(scope="module")
def token(server: Server) -> str:
    """Create a run with lessons in progress; return a token of its workers."""
    config = {"language": {"lessons": LESSONS, "evaluation": {"examples": 64}}}
    server.free_name(NAME)
    given = f"NAME, CONFIG, HOSTILE = {NAME!r}, {config!r}, {HOSTILE!r}\n"
    # Functions find names only in the globals of the shell's code.
    code = f"exec(compile({given + SEED!r}, 'seed', 'exec'), {{}})"
    return in_the_shell(server, code).split()[-1]


def workers_token(server: Server, name: str) -> str:
    """Return a token of a run's workers."""
    code = (
        "from django.utils import timezone\n"
        "from runs.access.services.tokens import create_token\n"
        "from runs.models import Run\n"
        f"run = Run.objects.get(name={name!r}).pk\n"
        "print(create_token(name='w', scopes=['worker'], run_id=run, issuer='platform',"
        " now=timezone.now())[1])"
    )
    return in_the_shell(server, code).split()[-1]


def fail(server: Server, token: str, lesson: str, *, run: str = NAME, stops: bool = False) -> None:
    """Report, as a worker does, that a lesson failed."""
    body = {
        "stops": stops,
        "key": "failed",
        "worker": "w0@1",
        "mode": "train",
        "epoch": 1,
        "policy_step": 40,
        "generations": 1,
        "rewards": [],
        "successes": [],
        "error": "no such file",
    }
    path = f"{server.url}/api/v1/runs/{run}/lessons/{lesson}/outcomes"
    headers = {"Authorization": f"Bearer {token}"}
    httpx.post(path, json=body, headers=headers, timeout=30).raise_for_status()


def lesson(page: Page, name: str) -> Locator:
    return page.locator(f"[data-lesson='{name}']")


def test_lessons_are_shown_with_state_and_reason_and_change_live(
    signed_in: Page, server: Server, token: str
) -> None:
    signed_in.goto(f"/runs/{NAME}/curriculum")
    panel = signed_in.get_by_role("region", name="Curriculum")

    expect(panel).to_contain_text("2 active, 1 graduated, 1 locked")
    expect(lesson(signed_in, "reverse-2").locator("[data-state='graduated']")).to_be_visible()
    expect(lesson(signed_in, "reverse-2")).to_contain_text("evaluation succeeded 63 times of 64")
    expect(lesson(signed_in, "reverse-8")).to_contain_text("requires reverse-4 (active, success")
    expect(lesson(signed_in, "sums")).to_contain_text("64 % 54 % – 73 %")

    # New reports of workers appear without a reload.
    fail(server, token, "sums")
    expect(lesson(signed_in, "sums")).to_contain_text("no such file")

    lesson(signed_in, "sums").get_by_role("button", name="sums").click()
    expect(signed_in).to_have_url(re.compile(r"\?lesson=sums$"))
    drawer = signed_in.get_by_role("dialog", name="Lesson sums")
    chart = drawer.get_by_role(
        "img", name=re.compile("^Success of sums, in %, by version: [0-9]+ points")
    )
    expect(chart).to_have_attribute("aria-label", re.compile("newest evaluation 64.1, "))
    expect(drawer).to_contain_text("<b id=hostile>21</b>⟨U+202E⟩")
    expect(signed_in.locator("#hostile")).to_have_count(0)
    drawer.get_by_role("button", name="Close").click()
    lesson(signed_in, "reverse-4").get_by_role("button", name="reverse-4").click()
    history = signed_in.get_by_role("table", name="History, newest first")
    expect(history.get_by_role("row").nth(1)).to_contain_text(
        re.compile("locked → active.*reverse-2 has graduated.*curriculum.*20")
    )


def test_share_and_success_of_lessons_are_charts_by_version(signed_in: Page, token: str) -> None:
    signed_in.goto(f"/runs/{NAME}/curriculum")
    for panel, words in {
        "Share of tasks": "3 points; newest reverse-2 0, reverse-4 [0-9.]+, sums [0-9.]+",
        "Training success": "2 points; newest reverse-2 50, reverse-4 50, sums 3.13",
        "Evaluation success": "3 points; newest reverse-2 98.4, reverse-4 48.4, sums 64.1",
    }.items():
        chart = signed_in.locator("[data-panel]").get_by_role("img", name=re.compile(f"^{panel}"))
        expect(chart).to_have_attribute("aria-label", re.compile(words))


def test_answers_are_counted_in_episodes_and_tokens_without_recordings(
    signed_in: Page, token: str
) -> None:
    signed_in.goto(f"/runs/{NAME}")
    expect(signed_in.locator("dl:has([data-figure])")).to_contain_text("Episodes per second")
    expect(signed_in.get_by_role("region", name="Answer length")).to_contain_text("tokens")

    open_tab(signed_in, "Samples")
    signed_in.get_by_role("button", name="Distribution").click()
    expect(signed_in.get_by_text("Length in tokens")).to_be_visible()
    open_tab(signed_in, "Fleet & logs", "Fleet")
    expect(signed_in.get_by_role("region", name="Fleet", exact=True)).to_be_visible()
    expect(signed_in.get_by_role("region", name="Recordings")).to_have_count(0)


def test_evaluations_of_a_lesson_are_listed_with_their_answers(signed_in: Page, token: str) -> None:
    signed_in.goto(f"/runs/{NAME}/evaluations?lesson=sums")  # a link of an earlier version
    expect(signed_in).to_have_url(re.compile(r"/curriculum\?lesson=sums$"))
    drawer = signed_in.get_by_role("dialog", name="Lesson sums")
    rows = drawer.locator("[data-evaluation]")
    expect(rows).to_have_count(3)
    expect(rows.nth(1)).to_contain_text("0.344, between 0.254 and 0.446")

    rows.nth(1).get_by_role("button", name="version 20").click()
    expect(signed_in).to_have_url(re.compile(r"\?lesson=sums&evaluation=[0-9a-f-]{36}$"))
    answers = drawer.get_by_role("region", name="Answers of one evaluation")
    expect(answers).to_contain_text("Answers of the evaluation at version 20")
    expect(answers).to_contain_text("64 problems, 1 answer each: success 0.344")
    link = answers.get_by_role("link", name="Samples of sums sampled at version 20")
    expect(link).to_have_attribute("href", re.compile("version%3A20"))
    drawer.get_by_role("button", name="Close").click()

    # Without workers there is no evaluation; the button gives the reason.
    button = signed_in.get_by_role("button", name="Evaluate now")
    expect(button).to_be_disabled()
    expect(button).to_have_accessible_description(
        "The run is stopped: no worker can evaluate. Start it first."
    )


def test_lessons_of_a_running_run_are_evaluated_on_request(signed_in: Page, server: Server) -> None:
    name = "words-at-work"
    lessons = {name: LESSONS[name] for name in ("reverse-2", "sums")}
    config = {"language": {"lessons": lessons, "evaluation": {"examples": 64}}}
    with simulated_manager(server, name, config=config) as fleet:
        signed_in.goto(f"/runs/{name}/curriculum")
        button = signed_in.get_by_role("button", name="Evaluate now")
        expect(button).to_have_accessible_description("No weights published yet.")

        with Trainer(server.url, name, ADMIN_TOKEN) as trainer:
            trainer.register()
            trainer.publish_weights({"w": np.zeros(1, dtype=np.float32)}, step=0)
        assert fleet.evaluate(successes=16) == ["reverse-2", "sums"]
        row = lesson(signed_in, "sums")
        expect(row).to_contain_text(re.compile("25 %.*at version 0"))

        button.click()
        dialog = signed_in.get_by_role("dialog", name="Evaluate lessons now?")
        expect(dialog).to_contain_text("the schedule is unchanged")
        dialog.get_by_label("Lessons").click()
        signed_in.get_by_role("option", name="sums").click()
        dialog.get_by_label("Reason").fill("a closer look")
        dialog.get_by_role("button", name="Evaluate", exact=True).click()
        expect(dialog).to_have_count(0)
        panel = signed_in.get_by_role("region", name="Curriculum")
        expect(panel).to_contain_text("1 evaluation pending")
        row.get_by_role("button", name="sums").click()
        newest = signed_in.locator("[data-evaluation]").first
        expect(newest).to_contain_text("queued")
        signed_in.get_by_role("button", name="Close").click()

        assert fleet.evaluate(successes=48) == ["sums"]
        expect(row).to_contain_text(re.compile("75 %.*at version 0"))

        signed_in.goto(f"/runs/{name}/logs")
        expect(
            signed_in.get_by_text("requested an evaluation of sums at version 0")
        ).to_be_visible()
        expect(signed_in.get_by_text("a closer look").first).to_be_visible()


def test_a_lesson_is_held_and_released(signed_in: Page, server: Server) -> None:
    name = "words-steered"
    with two_lessons(server, name):
        signed_in.goto(f"/runs/{name}/curriculum?lesson=sums")
        hand = signed_in.get_by_role("region", name="Manual control")
        expect(hand).to_contain_text("Controlled by the curriculum. 50 % of tasks")

        hand.get_by_role("button", name="Lock, unlock or change weight…").click()
        dialog = signed_in.get_by_role("dialog", name="Steer sums")
        dialog.get_by_label("Weight factor").fill("3")
        dialog.get_by_label("Locked", exact=True).check()
        dialog.get_by_label("Reason").fill("sums drown the words")
        dialog.get_by_role("button", name="Steer", exact=True).click()
        expect(hand).to_contain_text("held locked, weight × 3 by ada")
        expect(hand).to_contain_text("sums drown the words")
        # No simulated worker asks for tasks, so the change is not applied yet.
        panel = signed_in.get_by_role("region", name="Curriculum")
        expect(panel).to_contain_text("1 lesson is steered manually; not yet applied by w0@")

        hand.get_by_role("button", name="Lock, unlock or change weight…").click()
        dialog.get_by_label("Automatic", exact=True).check()
        dialog.get_by_label("Weight factor").fill("1")
        dialog.get_by_role("button", name="Steer", exact=True).click()
        expect(hand).to_contain_text("Controlled by the curriculum. 50 % of tasks")
        moves = signed_in.get_by_role("table", name="History, newest first")
        expect(moves).to_contain_text("ada")
        expect(moves).to_contain_text("held locked and drawn 3 times as often: sums drown")


def test_a_lesson_that_a_failure_has_stopped_is_started_again(
    signed_in: Page, server: Server
) -> None:
    name = "words-stopped"
    with two_lessons(server, name):
        signed_in.goto(f"/runs/{name}/curriculum")
        row = lesson(signed_in, "sums")
        expect(row).to_contain_text("50 %")

        fail(server, workers_token(server, name), "sums", run=name, stops=True)

        expect(row).to_contain_text("stopped after a failure")
        expect(row).to_contain_text("stopped: no such file")
        row.get_by_role("button", name="sums").click()
        hand = signed_in.get_by_role("region", name="Manual control")
        expect(hand).to_contain_text("Stopped for the run by its setting on_failure")
        hand.get_by_role("button", name="Start again…").click()
        dialog = signed_in.get_by_role("dialog", name="Steer sums")
        dialog.get_by_label("Reason").fill("the file is back")
        dialog.get_by_role("button", name="Steer", exact=True).click()
        expect(hand).to_contain_text("Controlled by the curriculum. 50 % of tasks")
        moves = signed_in.get_by_role("table", name="History, newest first")
        expect(moves).to_contain_text("started again, active: the file is back")

        signed_in.goto(f"/runs/{name}/logs")
        expect(signed_in.get_by_text("lesson sums has stopped for the run").first).to_be_visible()

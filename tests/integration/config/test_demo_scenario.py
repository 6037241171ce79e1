"""The demo uses the services of the dashboard, and reads the data of its pages."""

from datetime import UTC, datetime

import pytest

from config.demo.show import Returns, lesson_reader, prepare, run_state
from runs.access.models import ApiToken, User
from runs.access.services.login_links import redeem_login_token
from runs.lifecycle.models import Run

NOW = datetime(2026, 1, 1, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def test_each_demo_has_a_separate_run_and_the_same_user() -> None:
    first, second = prepare(preset="cartpole", now=NOW), prepare(preset="cartpole", now=NOW)

    assert [first.run_name, second.run_name] == ["demo-1", "demo-2"]
    assert Run.objects.get(name="demo-1").status == "queued"
    assert User.objects.get().username == "demo"


def test_the_token_of_the_trainer_is_valid_for_this_run_only() -> None:
    scenario = prepare(preset="cartpole", now=NOW)
    token = ApiToken.objects.get()

    assert (token.run_id, token.scopes) == (scenario.run_id, ["trainer"])
    assert token.token_sha256 not in scenario.trainer_token


def test_the_link_signs_the_demos_user_in() -> None:
    address, _, token = prepare(preset="cartpole", now=NOW).login_path.partition("#")

    user = redeem_login_token(token, now=NOW)
    assert user is not None
    assert user.get_username() == "demo"
    assert address == "/login/once?next=/runs/demo-1"


def test_a_new_run_has_no_progress() -> None:
    run_id = prepare(preset="cartpole", now=NOW).run_id
    run = run_state(run_id, now=NOW)
    progress = Returns(run_id)(run)

    assert (run.status, run.threshold, progress.milestones) == ("queued", 48, [])
    assert not progress.has_begun
    assert not progress.has_reached_target


def test_a_new_language_run_has_no_progress() -> None:
    run_id = prepare(preset="curriculum", now=NOW).run_id
    progress = lesson_reader(run_id)(run_state(run_id, now=NOW))

    assert progress.summary == "0 of 4 lessons have graduated, 3 required"
    # In the preset's order: databases do not keep the order of an object's fields.
    assert list(progress.rows) == [*("one-good", "two-goods", "three-goods", "larger-prices")]
    assert progress.milestones == []


def test_the_run_uses_a_given_configuration() -> None:
    scenario = prepare(preset="", config={"seed": 7}, now=NOW)

    assert Run.objects.get(pk=scenario.run_id).config["seed"] == 7

"""Create the objects of the demo: a user, a run, and a token for its trainer."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User

from runs.access.services.logins import make_login_link
from runs.access.services.tokens import create_token
from runs.lifecycle.models.runs import Run
from runs.lifecycle.rules.lifecycle import RunVerb
from runs.lifecycle.services.lifecycle import change_status, create

USER_NAME: Final = "demo"
RUN_NAME: Final = "demo-{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The created objects.

    Attributes:
        run_id: Id of the started run.
        run_name: Its name.
        trainer_token: API token with trainer rights on this run only.
        login_path: Path of a one-time link that signs the demo's user in and opens the run.
    """

    run_id: int
    run_name: str
    trainer_token: str
    login_path: str


def prepare(*, preset: str, config: dict[str, Any] | None = None, now: datetime) -> Scenario:
    """Create the demo's user if missing, and a new run, through the dashboard's own services.

    Args:
        preset: Preset of the run; may be empty.
        config: Fields of a run configuration that override the preset.
        now: Time of creation.

    Raises:
        UnknownPreset: If the preset does not exist.
        InvalidRunConfig: If the configuration is invalid.
    """
    user = _demo_user()
    run = create(name=_free_name(), preset=preset, config=config, created_by=user, now=now)
    change_status(run_id=run.pk, verb=RunVerb.START, actor=f"user:{USER_NAME}", now=now)
    _, token = create_token(
        name=f"trainer of {run.name}", scopes=["trainer"], run_id=run.pk, created_by=user, now=now
    )
    path = make_login_link(user, then=f"/runs/{run.name}", now=now)
    return Scenario(run_id=run.pk, run_name=run.name, trainer_token=token, login_path=path)


def _demo_user() -> User:
    """Return the demo's user; its password is random, the link signs in."""
    users = get_user_model().objects
    found = users.filter(username=USER_NAME).first()
    return found or users.create_superuser(USER_NAME, password=secrets.token_urlsafe(24))


def _free_name() -> str:
    taken = set(Run.objects.filter(name__startswith="demo-").values_list("name", flat=True))
    number = 1
    while RUN_NAME.format(number=number) in taken:
        number += 1
    return RUN_NAME.format(number=number)

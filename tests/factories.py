"""Factories of database rows for tests: plain functions with keyword arguments."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import Group

from runs.access.models import ApiToken, TokenIssuer, User
from runs.access.services.tokens import create_token
from runs.lifecycle.models import Run, RunKind
from runs.lifecycle.rules import Registration, RunStatus
from runs.lifecycle.services.lifecycle import create
from runs.lifecycle.services.registry import register_trainer
from runs.projects.models import Project
from runs.projects.services import create_project

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def make_run(
    *,
    name: str = "alpha",
    kind: str = RunKind.FLEET,
    status: RunStatus = RunStatus.RUNNING,
    config: dict[str, Any] | None = None,
    now: datetime = NOON,
    **fields: Any,
) -> Run:
    """Create a run with the given status; further fields are set directly."""
    run = create(name=name, kind=kind, config=config, actor="tests", now=now)
    Run.objects.filter(pk=run.pk).update(
        status=status,
        drain_target=RunStatus.COMPLETED if status is RunStatus.DRAINING else "",
        **fields,
    )
    return Run.objects.get(pk=run.pk)


def make_settled_run(**fields: Any) -> Run:
    """Create a run whose status changed an hour ago, so that its last minute is measured."""
    return make_run(status_changed_at=NOON - timedelta(hours=1), **fields)


def make_outside_run(
    *,
    name: str = "words",
    batch_size: int = 4,
    trainers: tuple[str, ...] = ("alice",),
    **fields: Any,
) -> Run:
    """Create an outside run with a batch size in sequences, and at most 64 tokens each."""
    run = make_run(name=name, kind=RunKind.OUTSIDE, **fields)
    for identity in trainers:
        register_trainer(
            run_id=run.pk,
            identity=identity,
            registration=Registration(batch_size=batch_size, max_token_len=64),
            now=NOON,
        )
    return Run.objects.get(pk=run.pk)


def make_project(
    *, name: str = "cartpole", defaults: dict[str, Any] | None = None, **fields: Any
) -> Project:
    """Create a project; further fields are set directly."""
    project = create_project(name=name, defaults=defaults, actor="tests", now=NOON)
    Project.objects.filter(pk=project.pk).update(**fields)
    return Project.objects.get(pk=project.pk)


def make_user(*, username: str = "alice", role: str = "viewer") -> User:
    """Create a user: `viewer`, `operator` or `admin`; the password is the name."""
    user = User.objects.create_user(username, password=username, is_staff=role == "admin")
    if role == "operator":
        user.groups.add(Group.objects.get_or_create(name="operator")[0])
    return user


def make_token(
    *scopes: str, run: Run | None = None, name: str = "a token", **fields: Any
) -> tuple[ApiToken, str]:
    """Create a token for `run` or for all, issued by the platform unless `created_by` is given."""
    issuer = TokenIssuer.PERSON if fields.get("created_by") else TokenIssuer.PLATFORM
    return create_token(
        name=name,
        scopes=scopes,
        run_id=run.pk if run else None,
        now=NOON,
        **{"issuer": issuer, **fields},
    )


def bearer(*scopes: str, run: Run | None = None) -> dict[str, str]:
    """Return the headers of a client with a new token."""
    return {"Authorization": f"Bearer {make_token(*scopes, run=run)[1]}"}

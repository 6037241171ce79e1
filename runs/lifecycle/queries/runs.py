"""Selectors: read runs for pages and machines."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Final

import msgspec
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection

from runs.access.rules.rights import Caller, Role, token_caller
from runs.lifecycle.models.events import RunEvent
from runs.lifecycle.models.runs import (
    ApiToken,
    Environment,
    PolicyVersion,
    Run,
    TokenIssuer,
    Trainer,
)
from runs.lifecycle.queries.summaries import summary_fields
from runs.lifecycle.rules.registration import is_heard
from runs.lifecycle.schemas.runs import (
    EnvironmentRow,
    Event,
    PolicyVersionRow,
    RefusedPushes,
    RunDetail,
    Session,
    TokenRow,
    TrainerRow,
)
from web.rows import first_row

EVENTS_PER_PAGE: Final = 200
OPERATORS_GROUP: Final = "operator"


class RunNotFound(LookupError):
    """There is no current run with this name."""


class RunArchived(RunNotFound):
    """The run is archived, so it is read-only."""


class NoWeights(LookupError):
    """The requested weights do not exist."""


def run_named(name: str) -> Run:
    """Return the current run named `name`.

    Raises:
        RunArchived: If only an archived run is at this address.
        RunNotFound: If there is no such run.
    """
    run = first_row(Run, "name = %s AND archived_at IS NULL", [name])
    if run is None:
        raise _absence(name)
    return run


def readable_run(address: str) -> Run:
    """Return the run at an address, current or archived (:mod:`runs.lifecycle.rules.run_address`).

    Raises:
        RunNotFound: If there is no such run.
    """
    run = first_row(Run, "name = %s AND archived_at IS NULL", [address]) or Run.objects.at(address)
    if run is None:
        raise RunNotFound(f"run {address!r} not found")
    return run


def readable_run_id(address: str) -> int:
    """Return the id of the run at an address, current or archived.

    Raises:
        RunNotFound: If there is no such run.
    """
    return readable_run(address).pk


def run_id_named(name: str) -> int:
    """Return the id of the current run named `name`, without loading its configuration.

    Raises:
        RunArchived: If only an archived run is at this address.
        RunNotFound: If there is no such run.
    """
    found = Run.objects.current().filter(name=name).values_list("pk", flat=True).first()
    if found is None:
        raise _absence(name)
    return found


def _absence(name: str) -> RunNotFound:
    """Return the error for a name without a current run."""
    run = Run.objects.at(name)
    if run is None or run.archived_at is None:
        return RunNotFound(f"run {name!r} not found")
    return RunArchived(
        f"run {run.name!r} was archived on {run.archived_at:%Y-%m-%d at %H:%M} UTC and is"
        f" read-only; unarchive it (id {run.pk}) to change it"
    )


def served_steps(run_id: int) -> int:
    """Return the number of batches served by a run; 0 if it does not exist."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT served_steps FROM runs_run WHERE id = %s", [run_id])
        row = cursor.fetchone()
    return 0 if row is None else int(row[0])


def run_detail(run: Run) -> RunDetail:
    """Return a run with its configuration."""
    return RunDetail(**summary_fields(run), config=run.config)


def run_part(run_id: int) -> RunDetail | None:
    """Return a run for its live page."""
    run = Run.objects.select_related("created_by").filter(pk=run_id).first()
    return None if run is None else run_detail(run)


def _event(event: RunEvent) -> Event:
    return Event(**{field: getattr(event, field) for field in Event.__struct_fields__})


def events(
    *, run_id: int, before: int | None = None, limit: int = 100, kinds: Collection[str] = ()
) -> list[Event]:
    """Return events of a run older than event `before`, newest first, optionally by kind."""
    found = RunEvent.objects.filter(run_id=run_id).order_by("-id")
    if kinds:
        found = found.filter(kind__in=kinds)
    if before is not None:
        found = found.filter(id__lt=before)
    return [_event(event) for event in found[:limit]]


def event_series(run_id: int, after_id: int | None, limit: int) -> list[Event]:
    """Return a run's events, oldest first, after `after_id`, or the newest ones."""
    if after_id is None:
        return events(run_id=run_id, limit=min(limit, EVENTS_PER_PAGE))[::-1]
    rows = RunEvent.objects.filter(run_id=run_id, id__gt=after_id).order_by("id")[:limit]
    return [_event(event) for event in rows]


def environments(*, run_id: int, now: datetime) -> list[EnvironmentRow]:
    """Return a run's environments in order of registration."""
    found = Environment.objects.filter(run_id=run_id).order_by("env_id")
    return [environment_row(row, now=now) for row in found]


def environment_row(row: Environment, *, now: datetime) -> EnvironmentRow:
    """Return an environment for the API; one without recent calls is not connected."""
    fields = {f: getattr(row, f) for f in EnvironmentRow.__struct_fields__}
    refused = msgspec.convert(row.refused or {}, dict[str, RefusedPushes])
    connected = row.connected and is_heard(row.last_seen_at, now=now)
    return EnvironmentRow(**fields | {"refused": refused, "connected": connected})


def trainers(*, run_id: int) -> list[TrainerRow]:
    """Return a run's trainers in order of their first registration."""
    found = Trainer.objects.filter(run_id=run_id).order_by("id")
    return [
        TrainerRow(**{f: getattr(row, f) for f in TrainerRow.__struct_fields__}) for row in found
    ]


def token_fields(token: ApiToken) -> dict[str, Any]:
    """Return the public fields of a token."""
    shown = set(TokenRow.__struct_fields__) - {"suspended"}
    given: dict[str, Any] = {field: getattr(token, field) for field in shown}
    given["run"] = token.run.name if token.run else None
    given["created_by"] = token.created_by.get_username() if token.created_by else None
    given["suspended"] = sorted(caller_of_token(token).suspended)
    return given


def tokens() -> list[TokenRow]:
    """Return all tokens, newest first."""
    found = list(ApiToken.objects.select_related("run", "created_by").order_by("-id"))
    roles = {owner: role_of(owner) for owner in {token.created_by for token in found} if owner}
    for token in found:
        token.owner_role = roles[token.created_by] if token.created_by else None
    return [TokenRow(**token_fields(token)) for token in found]


def current_weights(*, run: Run) -> PolicyVersion:
    """Return the newest policy version of the run's epoch.

    Raises:
        NoWeights: If none was published in this epoch.
    """
    return weights(run=run, epoch=run.epoch, step=run.policy_step)


def weights(*, run: Run, epoch: int, step: int) -> PolicyVersion:
    """Return one policy version.

    Raises:
        NoWeights: If it was never published.
    """
    version = PolicyVersion.objects.filter(run=run, epoch=epoch, step=step).first()
    if version is None:
        raise NoWeights(f"{run.name} has no version {epoch}.{step}")
    return version


def policy_versions(
    *, run_id: int, before: int | None = None, only: int | None = None, limit: int = 50
) -> list[PolicyVersionRow]:
    """Return a run's published versions, newest first.

    Args:
        run_id: Id of the run.
        before: Only versions with a smaller id.
        only: Id of a single version; None for all.
        limit: Maximum number of versions.
    """
    found = PolicyVersion.objects.filter(run_id=run_id).defer("manifest").select_related("trainer")
    if before is not None:
        found = found.filter(id__lt=before)
    if only is not None:
        found = found.filter(id=only)
    return [
        PolicyVersionRow(
            id=row.pk,
            epoch=row.epoch,
            step=row.step,
            sha256=row.sha256,
            size_bytes=row.size_bytes,
            published_at=row.published_at,
            trainer=str(row.trainer.name or row.trainer.identity) if row.trainer else None,
            has_file=bool(row.file),
        )
        for row in found.order_by("-id")[:limit]
    ]


def role_of(user: AbstractBaseUser | AnonymousUser) -> Role:
    """Return the role of a signed-in person."""
    if not isinstance(user, User) or not user.is_active:
        return Role.NOBODY
    if user.is_superuser or user.is_staff:
        return Role.ADMIN
    if user.groups.filter(name=OPERATORS_GROUP).exists():
        return Role.OPERATOR
    return Role.VIEWER


def session_of(user: AbstractBaseUser | AnonymousUser) -> Session:
    """Return the session for pages: user name and role."""
    return Session(
        authenticated=user.is_authenticated,
        username=user.get_username(),
        role=role_of(user).name.lower(),  # type: ignore[arg-type] # a known role
    )


def session_part(username: str) -> Session:
    """Return the current session of a person by name; anonymous if they do not exist."""
    return session_of(User.objects.filter(username=username).first() or AnonymousUser())


def caller_of_user(user: AbstractBaseUser) -> Caller:
    """Return a signed-in person as a caller."""
    return Caller(identity=f"user:{user.get_username()}", role=role_of(user))


def caller_of_token(token: ApiToken) -> Caller:
    """Return an authenticated token as a caller, limited to its owner's role."""
    is_of_person = token.issuer == TokenIssuer.PERSON
    return token_caller(
        identity=f"token:{token.pk}",
        scopes=token.scopes,
        owner_role=Role(token.owner_role or Role.NOBODY) if is_of_person else None,
        run=token.run.name if token.run else None,
    )


def weights_directory(run: Run) -> str:
    """Return the shared folder of the run's weights; empty if they are uploaded."""
    transport = (run.config or {}).get("fleet", {}).get("weights_transport", "http")
    root = settings.ROLLDECK_WEIGHTS_DIRECTORY
    if transport != "directory" or not root:
        return ""
    # An archived run's name may be reused; the time of creation makes the folder unique.
    return str(Path(root, f"{run.name}-{run.created_at:%Y%m%dT%H%M%S%f}"))


def weights_file(version: PolicyVersion) -> IO[bytes]:
    """Return the open file of a policy version.

    Raises:
        NoWeights: If newer versions have evicted it.
    """
    gone = f"the file of version {version} has been evicted"
    if not version.file:
        raise NoWeights(gone)
    try:
        return version.file.storage.open(str(version.file.name))
    except FileNotFoundError as error:
        raise NoWeights(gone) from error


def caller_of_session(session_key: str) -> Caller | None:
    """Return the user signed in under a session key, or None."""
    user = get_user(SimpleNamespace(session=SessionStore(session_key)))  # type: ignore[arg-type]
    return caller_of_user(user) if isinstance(user, AbstractBaseUser) else None

"""Create runs and change their status.

Each change names its allowed source states, records an event and is announced, in one transaction.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from runs.config import queries as presets
from runs.config.rules import environment_specs, run_config, simulated_fleet
from runs.config.rules.environment_words import names_in, words_of
from runs.config.rules.language_config import LanguageConfig
from runs.config.rules.run_config import PRESETS, InvalidRunConfig, RunConfig
from runs.config.services import config_checks
from runs.lifecycle.models.runs import Run, RunKind
from runs.lifecycle.queries.runs import RunNotFound
from runs.lifecycle.rules.lifecycle import (
    VERB_TARGETS,
    MoveNotAllowed,
    RunStatus,
    RunVerb,
    sources_of,
    sources_of_verb,
)
from runs.lifecycle.rules.tags import checked
from runs.lifecycle.services import changes
from runs.lifecycle.services.events import record_event
from web.live.announcements import announce
from web.rules import json_values

DEFAULT_RUN_NAME: Final = "default"
# Address of the dashboard's launch form.
FORM_NAME: Final = "new"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,80}")


class RunExists(Exception):
    """A current run has this name."""

    field = "name"


class InvalidRunName(ValueError):
    """The name cannot be part of a URL, or is reserved."""

    field = "name"


class UnknownPreset(ValueError):
    """The preset does not exist."""

    field = "preset"


class UnexpectedConfig(ValueError):
    """Outside runs have no configuration: their trainer sends it."""

    field = "config"


def create(
    *,
    name: str,
    kind: str = RunKind.FLEET,
    config: dict[str, Any] | None = None,
    preset: str = "",
    tags: Iterable[str] = (),
    lenient: bool = False,
    created_by: User | None = None,
    actor: str = "",
    now: datetime,
) -> Run:
    """Create a draft of a run.

    Args:
        name: Unique among current runs; letters, digits, `-` and `_`.
        kind: `fleet` (with a fleet; becomes `language` if the configuration has lessons) or
            `outside` (data pushed by external environments).
        config: Fields of a RunConfig that override the preset; not for outside runs.
        preset: One of :data:`runs.config.rules.run_config.PRESETS`, a saved one that `created_by`
            may see, or empty for the defaults.
        tags: Labels for filters.
        lenient: Accept groups with inconsistent lengths or unknown environments.
        created_by: The requesting person, if any.
        actor: Actor of the event, by default `created_by`.
        now: Time of creation.

    Raises:
        InvalidRunName: If the name cannot be used.
        UnknownPreset: If the preset does not exist.
        InvalidRunConfig: If the configuration is invalid; `field` is the path.
        UnexpectedConfig: If an outside run has a configuration.
        InvalidTag: If a tag is invalid.
        RunExists: If a current run has this name.
    """
    check_name(name)
    if kind != RunKind.OUTSIDE:
        parsed = configured(preset=preset, config=config or {}, asked_by=created_by)
        kind = RunKind.LANGUAGE if parsed.language else RunKind.FLEET
        fields = _fields_of(parsed)
    elif config or preset:
        raise UnexpectedConfig("an outside run is configured by its trainer's registration")
    else:
        fields = {}
    return _insert(
        now=now,
        actor=actor or (f"user:{created_by.get_username()}" if created_by else "platform"),
        name=name,
        kind=kind,
        preset=preset,
        created_by=created_by,
        tags=checked(tags),
        lenient=lenient,
        **fields,
    )


def check_name(name: str) -> None:
    """Check that a run may have this name.

    Raises:
        InvalidRunName: If it cannot be used.
    """
    if not NAME.fullmatch(name):
        raise InvalidRunName("must be 1 to 80 letters, digits, - or _")
    if name == DEFAULT_RUN_NAME:
        raise InvalidRunName(f"{DEFAULT_RUN_NAME!r} is reserved for the run at the server root")
    if name == FORM_NAME:
        raise InvalidRunName(f"{FORM_NAME!r} is reserved for the launch form")


@transaction.atomic
def create_and_start(*, start: bool, actor: str, now: datetime, **fields: Any) -> Run:
    """Create a run as :func:`create` does and, if `start`, start it, in one transaction."""
    run = create(actor=actor, now=now, **fields)
    if not start:
        return run
    return ask(run_id=run.pk, verb=RunVerb.START, actor=actor, now=now)


def configured(*, preset: str, config: dict[str, Any], asked_by: User | None = None) -> RunConfig:
    """Return the validated configuration of `config` merged over `preset`.

    Raises:
        UnknownPreset: If there is no such preset that `asked_by` may see.
        InvalidRunConfig: If a field is invalid; `field` is its path.
    """
    base = _base(preset, asked_by)
    try:
        json_values.check(config)
    except json_values.NotStorable as error:
        raise InvalidRunConfig(error.field, error.message) from error
    parsed = run_config.parse(_laid_over(base, config))
    spec = parsed.environment.spec
    registered = {*settings.ROLLDECK_ENVIRONMENTS}
    if settings.ROLLDECK_SIMULATION:
        registered |= simulated_fleet.PROFILES.keys()
    environment_specs.check(spec, registered=registered)
    simulated_fleet.simulation_of(spec, parsed.environment.kwargs)
    environment_specs.check_policy(spec, parsed.policy.kind)
    if parsed.fleet.weights_transport == "directory" and not settings.ROLLDECK_WEIGHTS_DIRECTORY:
        raise InvalidRunConfig(
            "fleet.weights_transport", "no shared directory is set (ROLLDECK_WEIGHTS_DIRECTORY)"
        )
    server = parsed.language.inference if parsed.language else ""
    if server and server not in settings.ROLLDECK_INFERENCE_SERVERS:
        raise InvalidRunConfig(
            "language.inference", f"unknown server {server!r} (ROLLDECK_INFERENCE_SERVERS)"
        )
    config_checks.check_all(parsed)
    return parsed


def _base(preset: str, asked_by: User | None) -> dict[str, Any]:
    """Return the configuration of a preset; empty without one."""
    if not preset:
        return {}
    if preset in PRESETS:
        return run_config.to_builtins(PRESETS[preset][1])
    saved = presets.seen_by(asked_by).filter(name=preset).values_list("body", flat=True).first()
    if saved is None:
        raise UnknownPreset(f"preset {preset!r} not found; built in: {', '.join(PRESETS)}")
    return dict(saved)


def _laid_over(base: dict[str, Any], top: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in top.items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            merged[key] = _laid_over(below, value)
        else:
            merged[key] = value
    return merged


def _fields_of(config: RunConfig) -> dict[str, Any]:
    """Return the columns derived from a configuration."""
    written = run_config.to_builtins(config)
    return {
        "config": written,
        "environment_words": words_of(names_in(written)),
        "batch_size": config.buffer.batch_size,
        "max_staleness": config.buffer.max_staleness,
        "off_policy_tolerance": config.buffer.off_policy_tolerance,
        "lease_seconds": config.buffer.lease_seconds,
        "num_steps": config.num_steps,
        "num_workers": config.fleet.num_workers,
        **(_fields_of_language(config.language) if config.language else {}),
    }


def _fields_of_language(config: LanguageConfig) -> dict[str, Any]:
    return {
        "max_token_len": config.model.max_position_embeddings,
        "drop_zero_variance": not config.keeps_zero_variance,
    }


@transaction.atomic
def _insert(*, now: datetime, actor: str, **fields: Any) -> Run:
    try:
        with transaction.atomic():
            run = Run.objects.create(created_at=now, status_changed_at=now, **fields)
    except IntegrityError as error:
        if "run_name_is_taken_once" not in str(error):
            raise
        raise RunExists(f"a run named {fields['name']!r} already exists") from error
    record_event(
        run_id=run.pk, kind="created", message=f"{run.kind} run created", actor=actor, now=now
    )
    announce(run.pk, "run")
    return run


@transaction.atomic
def ask(
    *,
    run_id: int,
    verb: RunVerb,
    actor: str,
    reason: str = "",
    now: datetime,
    deadline_seconds: float = 30,
) -> Run:
    """Apply a verb requested by a person or the platform, and return the changed run.

    `deadline_seconds` limits the drain of a stopping run; draining has no deadline.

    Raises:
        RunNotFound: If there is no such current run.
        MoveNotAllowed: If the run's status does not allow `verb`; the message names both.
    """
    before = _locked(run_id)
    target = _target(verb, before.kind)
    drain = {
        RunVerb.DRAIN: (RunStatus.COMPLETED, None),
        RunVerb.STOP: (RunStatus.STOPPED, now + timedelta(seconds=deadline_seconds)),
    }
    drain_target, drain_deadline_at = drain.get(verb, ("", None))
    changed = Run.objects.filter(pk=run_id, status__in=sources_of_verb(verb)).update(
        status=target,
        status_reason=reason,
        status_changed_at=now,
        drain_target=drain_target,
        drain_deadline_at=drain_deadline_at,
        **({"started_at": now} if verb is RunVerb.START else {}),
    )
    if changed != 1:
        raise MoveNotAllowed(f"{before.name} is {before.status}: {verb} is not allowed")
    _tell(before, target, actor=actor, reason=reason, verb=verb, now=now)
    return Run.objects.get(pk=run_id)


def _target(verb: RunVerb, kind: str) -> RunStatus:
    # An outside run has no fleet to wait for: it accepts data immediately.
    if verb is RunVerb.START and kind == RunKind.OUTSIDE:
        return RunStatus.RUNNING
    return VERB_TARGETS[verb]


@transaction.atomic
def move(*, run_id: int, target: RunStatus, actor: str, reason: str = "", now: datetime) -> bool:
    """Move a run to `target` if its status still allows that; return whether it did.

    For transitions detected by the platform (a fleet is ready, a drain is complete); requests use
    :func:`ask`.

    Raises:
        RunNotFound: If there is no such current run.
    """
    before = _locked(run_id)
    changed = Run.objects.filter(pk=run_id, status__in=sources_of(target)).update(
        status=target,
        status_reason=reason,
        status_changed_at=now,
        drain_target="",
        drain_deadline_at=None,
    )
    if changed != 1:
        return False
    _tell(before, target, actor=actor, reason=reason, verb="", now=now)
    return True


def _locked(run_id: int) -> Run:
    """Return the run, locked, so that events record its changes in order."""
    run = Run.objects.current().select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"no current run with id {run_id}")
    return run


def _tell(
    before: Run, target: RunStatus, *, actor: str, reason: str, verb: str, now: datetime
) -> None:
    record_event(
        run_id=before.pk,
        kind="status",
        message=f"{before.status} → {target}",
        actor=actor,
        level="error" if target is RunStatus.FAILED else "info",
        reason=reason,
        details={"from": before.status, "to": str(target), "verb": str(verb)},
        now=now,
    )
    announce(before.pk, "run")
    changes.notify(before.pk)

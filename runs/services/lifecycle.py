"""Create runs and move them through their life.

Each change names the states it may leave, writes an event and is announced, in one transaction.
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from runs import live
from runs.core import environment_specs, json_values, run_config, simulated_fleet
from runs.core.environment_words import names_in, words_of
from runs.core.language_config import LanguageConfig
from runs.core.lifecycle import (
    VERB_TARGETS,
    MoveNotAllowed,
    RunStatus,
    RunVerb,
    sources_of,
    sources_of_verb,
)
from runs.core.run_config import PRESETS, InvalidRunConfig, RunConfig
from runs.core.tags import checked
from runs.models import Run, RunKind
from runs.selectors import RunNotFound, presets
from runs.services import changes, config_checks
from runs.services.events import record_event

DEFAULT_RUN_NAME: Final = "default"
# The dashboard's form stands at this address.
FORM_NAME: Final = "new"
NAME = re.compile(r"[a-zA-Z0-9_-]{1,80}")


class RunExists(Exception):
    """A current run has this name."""

    field = "name"


class InvalidRunName(ValueError):
    """A name cannot be part of a URL, or is reserved."""

    field = "name"


class UnknownPreset(ValueError):
    """There is no preset of this name."""

    field = "preset"


class UnexpectedConfig(ValueError):
    """Outside runs have no configuration: their trainer brings it."""

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
        kind: `fleet` (rolled out here; `language` if the configuration says so) or `outside`
            (pushed by others).
        config: Fields of a RunConfig, laid over the preset; not for outside runs.
        preset: One of :data:`runs.core.run_config.PRESETS`, one that somebody saved and
            `created_by` may see, or empty for the defaults.
        tags: By which people find it again.
        lenient: Accept groups with inconsistent lengths or unknown environments.
        created_by: The person who asked, if it was one.
        actor: Who the event names, by default `created_by`.
        now: Time of creation.

    Raises:
        InvalidRunName: If the name cannot be used.
        UnknownPreset: If there is no such preset.
        InvalidRunConfig: If the configuration is wrong; `field` is the path.
        UnexpectedConfig: If an outside run brings a configuration.
        InvalidTag: If one of the tags cannot be one.
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
    """Accept a name that a run may have.

    Raises:
        InvalidRunName: If it cannot be used.
    """
    if not NAME.fullmatch(name):
        raise InvalidRunName("a name has 1 to 80 letters, digits, - or _")
    if name == DEFAULT_RUN_NAME:
        raise InvalidRunName(f"{DEFAULT_RUN_NAME!r} is the run at the server root")
    if name == FORM_NAME:
        raise InvalidRunName(f"{FORM_NAME!r} is the address of the form that launches runs")


@transaction.atomic
def create_and_start(*, start: bool, actor: str, now: datetime, **fields: Any) -> Run:
    """Create a run as :func:`create` does and, if `start`, ask it to start; both or neither."""
    run = create(actor=actor, now=now, **fields)
    if not start:
        return run
    return ask(run_id=run.pk, verb=RunVerb.START, actor=actor, now=now)


def configured(*, preset: str, config: dict[str, Any], asked_by: User | None = None) -> RunConfig:
    """Return the checked configuration that `config`, laid over `preset`, describes.

    Raises:
        UnknownPreset: If there is no such preset that `asked_by` may see.
        InvalidRunConfig: If a field is wrong; `field` is its path.
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
            "fleet.weights_transport", "this deck shares no directory (ROLLDECK_WEIGHTS_DIRECTORY)"
        )
    server = parsed.language.inference if parsed.language else ""
    if server and server not in settings.ROLLDECK_INFERENCE_SERVERS:
        raise InvalidRunConfig(
            "language.inference", f"this deck offers no {server!r} (ROLLDECK_INFERENCE_SERVERS)"
        )
    config_checks.check_all(parsed)
    return parsed


def _base(preset: str, asked_by: User | None) -> dict[str, Any]:
    """Return the configuration of a preset; empty without one."""
    if not preset:
        return {}
    if preset in PRESETS:
        return run_config.to_builtins(PRESETS[preset][1])
    saved = presets.seen_by(asked_by).filter(name=preset).values_list("config", flat=True).first()
    if saved is None:
        raise UnknownPreset(f"there is no preset {preset!r}; built in: {', '.join(PRESETS)}")
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
    """Return the columns that queries need of a configuration."""
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
        raise RunExists(f"there is a run {fields['name']!r} already") from error
    record_event(
        run_id=run.pk, kind="created", message=f"{run.kind} run created", actor=actor, now=now
    )
    live.announce(run.pk, "run")
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
    """Make a run do what a person or the platform asks, and return it as it then is.

    `deadline_seconds` is how long a stopping run may still drain; draining has no deadline.

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
        raise MoveNotAllowed(f"{before.name} is {before.status}: it cannot {verb} now")
    _tell(before, target, actor=actor, reason=reason, verb=verb, now=now)
    return Run.objects.get(pk=run_id)


def _target(verb: RunVerb, kind: str) -> RunStatus:
    # An outside run has no fleet to wait for: it takes data at once.
    if verb is RunVerb.START and kind == RunKind.OUTSIDE:
        return RunStatus.RUNNING
    return VERB_TARGETS[verb]


@transaction.atomic
def move(*, run_id: int, target: RunStatus, actor: str, reason: str = "", now: datetime) -> bool:
    """Move a run to `target` if its status still allows that; return whether it did.

    For what the platform finds out (a fleet is up, a drain is over); people :func:`ask`.

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
    """Return the run, locked, so that events tell the moves in their true order."""
    run = Run.objects.current().select_for_update(no_key=True).filter(pk=run_id).first()
    if run is None:
        raise RunNotFound(f"there is no current run with id {run_id}")
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
    live.announce(before.pk, "run")
    changes.notify(before.pk)

"""Probes of environments, and denials of environments to new runs."""

from datetime import datetime
from typing import Final

import msgspec
from django.db import transaction

from rollouts.control.services.ray_cluster import configured_cluster
from rollouts.environments.models import DeniedEnvironment
from rollouts.environments.queries import may_be_named
from rollouts.environments.schemas import (
    EnvironmentApproval,
    ProbedEnvironment,
    ProbedEpisode,
    ProbeEnvironment,
)
from rollouts.fleet.probe.messages import ProbeRequest
from rollouts.tasks.rules.dataset_config import KIND as DATASET
from rollouts.tasks.rules.task import KIND as TASK
from runs.config.rules.run_config import InvalidRunConfig, RunConfig, combined, to_builtins
from runs.config.rules.sections import specs_in
from runs.events.services import ACTOR_LENGTH, record_event
from web.rules.errors import InvalidField, NotFound

PROBE_SECONDS: Final = 20.0
"""Time limit of a probe."""


def probe_environment(body: ProbeEnvironment) -> ProbedEnvironment:
    """Construct an environment on the cluster and play one episode of random actions in it.

    Raises:
        NotFound: If fleets of this deployment cannot step it.
        ClusterUnreachable: If the cluster does not respond.
        TooManyProbes: If too many probes are in progress.
    """
    if not may_be_named(body.spec) or body.spec.startswith((TASK, DATASET)):
        raise NotFound(f"{body.spec!r} is not registered for fleets on this server")
    outcome = configured_cluster().probe(
        ProbeRequest(
            kind="environment", spec=body.spec, kwargs=body.kwargs, episode_steps=body.steps
        ),
        seconds=PROBE_SECONDS,
    )
    return ProbedEnvironment(
        spec=body.spec,
        trouble=outcome.trouble,
        is_missing=outcome.is_missing,
        seconds=outcome.seconds,
        observation=outcome.observation,
        action=outcome.action,
        episode=None
        if outcome.episode is None
        else ProbedEpisode(**msgspec.structs.asdict(outcome.episode)),
    )


@transaction.atomic
def approve_environment(*, approval: EnvironmentApproval, actor: str, now: datetime) -> None:
    """Deny a spec to new runs, or allow it again; existing runs continue.

    Raises:
        NotFound: If the spec is not registered on this server.
        InvalidField: If it is denied without a reason.
    """
    if not may_be_named(approval.spec):
        raise NotFound(
            f"{approval.spec!r} is not registered on this server (see ROLLDECK_ENVIRONMENTS)"
        )
    if approval.is_allowed:
        changed = bool(DeniedEnvironment.objects.filter(spec=approval.spec).delete()[0])
    else:
        if not approval.reason.strip():
            raise InvalidField(
                "reason", "must not be empty: it is shown to users who request the environment"
            )
        _, changed = DeniedEnvironment.objects.get_or_create(
            spec=approval.spec,
            defaults={
                "reason": approval.reason.strip(),
                "denied_at": now,
                "denied_by": actor[:ACTOR_LENGTH],
            },
        )
    if changed:
        word = "allowed" if approval.is_allowed else "denied"
        record_event(
            run_id=None,
            kind=f"environment_{word}",
            message=f"{word} the environment {approval.spec} to new runs",
            actor=actor,
            reason=approval.reason,
            details={"spec": approval.spec},
            now=now,
        )


def refuse_denied(config: RunConfig) -> None:
    """Check that a configuration uses no denied environment.

    Raises:
        InvalidRunConfig: If it does; `field` is its dotted path.
    """
    denied = dict(
        DeniedEnvironment.objects.filter(spec__in=specs_in(to_builtins(config))).values_list(
            "spec", "reason"
        )
    )
    if not denied:
        return
    if config.language is None:
        spec = config.environment.spec
        raise InvalidRunConfig("environment.spec", _refusal(spec, denied[spec]))
    raise combined(
        [
            InvalidRunConfig(
                f"language.lessons.{name}.spec", _refusal(lesson.spec, denied[lesson.spec])
            )
            for name, lesson in config.language.lessons.items()
            if lesson.spec in denied
        ]
    )


def _refusal(spec: str, reason: str) -> str:
    return f"an administrator has denied {spec!r} to new runs: {reason}"

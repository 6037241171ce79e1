"""Check of a run before launch, without storing anything."""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Final

import msgspec
from django.conf import settings
from msgspec import UNSET

from rollouts.control.services.ray_cluster import ClusterUnreachable, configured_cluster
from rollouts.environments import rules
from rollouts.environments.rules import Cluster, DiskRoom, Finding
from rollouts.environments.schemas import CheckRun, FindingRow, RunCheck
from rollouts.environments.services.check_results import PROBE_SECONDS
from rollouts.fleet.probe.messages import Outcome, ProbeRequest
from rollouts.tasks.rules.dataset_config import KIND as DATASET
from runs.access.models import User
from runs.config.queries import preset_name
from runs.config.rules import extensions, run_config
from runs.config.rules.extensions import BUILT_IN
from runs.config.rules.language_config import LessonConfig
from runs.config.rules.run_config import InvalidRunConfig, RunConfig
from runs.config.services import UnknownPreset, configured
from runs.lifecycle.models import Run
from runs.lifecycle.queries import suggested_name
from runs.lifecycle.services.lifecycle import InvalidRunName, check_name, launch_values
from runs.projects.rules import ProjectArchived, UnknownProject
from web.disk_space import free_disk_bytes

_REGISTER: Final = (
    "The check ran on the machine of the cluster's head. If the fleet's machines have it, launch; "
    "otherwise install or register it there."
)
WORKER_SECONDS: Final = 45.0
"""Time limit of a probe that runs a worker."""
LESSONS_AT_ONCE: Final = 3
"""Maximum number of lessons that one check constructs."""
EPISODE_STEPS: Final = 1000
"""Maximum number of random steps of the first episode."""
_REFUSED_BY_NAME: Final = ("WrongInterface: ", "UnsupportedSpace: ")
"""Beginnings of troubles that name the environment and the remedy."""
_OF_POLICY: Final = ("arrays.action", "arrays.behavior_logprob", "arrays.value", "arrays.policy")
"""Beginnings of the problems of a fragment that its policy causes."""
_SUBJECTS: Final = {
    extensions.WRAPPERS.field: "Wrappers",
    extensions.ENVIRONMENT_CALLBACKS.field: "Callbacks",
    extensions.STEP_CALLBACKS.field: "Step callbacks",
}


def check_run(body: CheckRun, *, asked_by: User | None = None) -> RunCheck:
    """Return the findings for a launch of `body`, with the presets visible to `asked_by`.

    Raises:
        TooManyProbes: If too many checks are in progress.
    """
    began = time.monotonic()
    found = _name(body.name)
    config: RunConfig | None = None
    preset = "" if body.preset is UNSET else body.preset
    try:
        values = launch_values(
            project=body.project,
            uses_defaults=body.uses_project_defaults,
            preset=None if body.preset is UNSET else body.preset,
            config=body.config,
        )
        preset = values.preset
        config = configured(preset=preset, config=values.config, asked_by=asked_by)
        preset = preset_name(preset, person=asked_by)
    except (InvalidRunConfig, UnknownPreset, UnknownProject, ProjectArchived) as error:
        found += [
            Finding(
                level="error",
                subject="Configuration",
                field=str(getattr(each, "field", "")),
                message=str(getattr(each, "message", each)),
                remedy="Change the field; the server rejects this configuration.",
            )
            for each in (error, *error.others)
        ]
    if config is not None and not body.fields_only:
        found += _static_findings(config)
    levels = {finding.level for finding in found}
    return RunCheck(
        result="refused" if "error" in levels else "risky" if "warning" in levels else "ready",
        config=None if config is None else run_config.to_builtins(config),
        suggested_name=suggested_name(body.name or preset or "run"),
        findings=[FindingRow(**asdict(finding)) for finding in found],
        seconds=round(time.monotonic() - began, 2),
    )


def _name(name: str) -> list[Finding]:
    if not name:
        return []
    message = ""
    try:
        check_name(name)
    except InvalidRunName as error:
        message = str(error)
    if not message and Run.objects.current().filter(name=name).exists():
        message = f"a run named {name!r} exists already"
    if not message:
        return []
    return [
        Finding(
            level="error",
            subject="Name",
            field="name",
            message=message,
            remedy="Choose another name.",
        )
    ]


def _static_findings(config: RunConfig) -> list[Finding]:
    requests = _environments(config)
    ray = configured_cluster()

    def rooms() -> Cluster:
        try:
            return Cluster(nodes=ray.rooms())
        except ClusterUnreachable as error:
            return Cluster(trouble=str(error))

    def probe(request: ProbeRequest) -> Outcome | None:
        # A worker imports torch, which takes long on a busy machine.
        seconds = WORKER_SECONDS if request.run_config else PROBE_SECONDS
        try:
            return ray.probe(request, seconds=seconds)
        except ClusterUnreachable:
            return None

    # Each waits for a separate process: concurrently they take as long as the slowest.
    with ThreadPoolExecutor(max_workers=len(requests) + 1) as threads:
        reading = threads.submit(rooms)
        outcomes = list(threads.map(probe, [request for _, request in requests]))
        cluster = reading.result()
    environments = [
        (field, one, outcome)
        for (field, one), outcome in zip(requests, outcomes, strict=True)
        if outcome is not None
    ]
    measured = [outcome.bytes_per_step for _, _, outcome in environments if not outcome.trouble]
    made = [outcome for _, _, outcome in environments if outcome.fragment_bytes]
    room = DiskRoom(
        free_bytes=free_disk_bytes(),
        kept_free_bytes=settings.ROLLDECK_MIN_FREE_DISK_BYTES,
        retention_bytes=settings.ROLLDECK_RETENTION_BYTES,
    )
    return [
        *(
            _unchecked(field, one.spec)
            for (field, one), outcome in zip(requests, outcomes, strict=True)
            if outcome is None
        ),
        *_of_environments(environments, config),
        *rules.partners(config),
        *rules.batches(config),
        *(_of_fragment(config, outcome) for outcome in made),
        *rules.tokens(config),
        *rules.room(config, cluster),
        *rules.disk(config, room, bytes_per_step=measured[0] if measured else None),
    ]


def _environments(config: RunConfig) -> list[tuple[str, ProbeRequest]]:
    """Return the environments to construct, without duplicates, by the field that names them."""
    if config.language is None:
        one = config.environment
        request = ProbeRequest(
            kind="environment",
            spec=one.spec,
            kwargs=one.kwargs,
            wrappers=one.wrappers,
            callbacks=one.callbacks,
            episode_steps=EPISODE_STEPS,
            policy=msgspec.to_builtins(config.policy),
            run_config=run_config.to_builtins(config),
        )
        return [("environment.spec", request)]
    # The built-in tasks were constructed when the configuration was checked. A probe has neither
    # the settings nor the credentials of partners' environments.
    foreign = {
        (lesson.spec, repr(sorted(lesson.kwargs.items()))): (
            f"language.lessons.{name}.spec",
            ProbeRequest(kind="lesson", spec=lesson.spec, kwargs=_probed_kwargs(lesson)),
        )
        for name, lesson in config.language.lessons.items()
        if not lesson.spec.startswith(("task:", *rules.PARTNERS))
    }
    return list(foreign.values())[:LESSONS_AT_ONCE]


def _probed_kwargs(lesson: LessonConfig) -> dict[str, Any]:
    """Return the arguments without judges and tools: a probe has no credentials of servers."""
    if not lesson.spec.startswith(DATASET):
        return lesson.kwargs
    rewards = [one for one in lesson.kwargs.get("rewards", []) if one["kind"] != "judge"]
    servers = {"rewards", "tools"}
    rest = {name: value for name, value in lesson.kwargs.items() if name not in servers}
    return {**rest, "rewards": rewards} if rewards else rest


def _unchecked(field: str, spec: str) -> Finding:
    return Finding(
        level="warning",
        subject="Environment",
        field=field,
        message=f"{spec} was not constructed: environments are checked on the cluster, which does "
        "not respond.",
        remedy="Check again when the cluster responds, or launch the run: a failure is reported "
        "with its cause.",
    )


def _of_environments(
    tried: Iterable[tuple[str, ProbeRequest, Outcome]], config: RunConfig
) -> list[Finding]:
    found = []
    kind = config.policy.kind
    for field, request, outcome in tried:
        found.append(_of_environment(field, request.spec, outcome))
        is_flattened = outcome.shows_images and kind == "mlp"
        if request.policy and outcome.policy_trouble:
            change = "Choose another policy, or convert the observations with a wrapper."
            remedy = change if kind in BUILT_IN else "Correct the policy or its arguments."
            failed = Finding(
                level="warning" if outcome.is_policy_missing else "error",
                subject="Policy",
                field="policy.kind",
                message=f"{kind} could not take a step: {outcome.policy_trouble}.",
                remedy=_REGISTER if outcome.is_policy_missing else remedy,
            )
            found.append(failed)
        elif request.policy and not (outcome.trouble or is_flattened):
            stepped = Finding(
                level="ok",
                subject="Policy",
                field="policy.kind",
                message=f"{kind} took a step; it has {outcome.parameters:,} parameters.",
            )
            found.append(stepped)
        if is_flattened:
            flattened = Finding(
                level="warning",
                subject="Policy",
                field="policy.kind",
                message=f"{request.spec} has image observations ({outcome.observation}), which "
                "an mlp treats as a flat vector.",
                remedy="Use a cnn, or a gru, which has convolutions for images.",
            )
            found.append(flattened)
    return found


def _of_fragment(config: RunConfig, outcome: Outcome) -> Finding:
    if outcome.fragment_problem:
        is_policys = outcome.fragment_problem.startswith(_OF_POLICY)
        return Finding(
            level="error",
            subject="Fragment",
            field="policy.kind" if is_policys else "environment.spec",
            message=f"The server would refuse the first fragment: {outcome.fragment_problem}.",
            remedy="Correct the policy or its arguments."
            if is_policys
            else "Correct the environment, or convert the value with a wrapper.",
        )
    return rules.fragment(
        config, push_bytes=outcome.fragment_bytes, most_bytes=settings.ROLLDECK_MAX_BODY_BYTES
    )


def _of_environment(field: str, spec: str, outcome: Outcome) -> Finding:
    if not outcome.trouble:
        spaces = f": observations {outcome.observation}; actions {outcome.action}"
        if not outcome.action:
            spaces = f": {outcome.observation}"
        return Finding(
            level="ok",
            subject="Environment",
            field=field,
            message=f"{spec} was constructed and {'stepped' if outcome.episode else 'reset'} in "
            f"{outcome.seconds:g} s{spaces if outcome.observation else ''}.",
        )
    if outcome.field:
        subject = _SUBJECTS.get(outcome.field.partition("[")[0], "Environment")
        return Finding(
            level="warning" if outcome.is_missing else "error",
            subject=subject,
            field=outcome.field,
            message=f"{spec} could not be stepped: {outcome.trouble}.",
            remedy=_REGISTER if outcome.is_missing else "Correct its class or its arguments.",
        )
    if outcome.observation:
        return Finding(
            level="error",
            subject="Environment",
            field=field,
            message=f"{spec} was constructed, but could not be stepped: {outcome.trouble}.",
            remedy="Correct the environment, or convert the value with a wrapper.",
        )
    message = f"could not be constructed: {outcome.trouble}"
    is_named = outcome.trouble.startswith(_REFUSED_BY_NAME)
    return Finding(
        level="warning" if outcome.is_missing else "error",
        subject="Environment",
        field=field,
        message=f"{outcome.trouble.partition(': ')[2] if is_named else f'{spec} {message}'}.",
        remedy=_REGISTER
        if outcome.is_missing
        else "Change the environment, or use a wrapper."
        if is_named
        else "Check its name and arguments.",
    )

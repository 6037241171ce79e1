"""Probe an environment or a lesson once, in a separate process.

``python -m rollouts.fleet.probe.command`` reads a :class:`ProbeRequest` from its standard input and
writes an :class:`Outcome` per line; the last one counts. The probed code is untrusted: the caller
provides a dedicated folder, an environment without secrets, and a time limit.
"""

import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from rollouts.fleet.probe.messages import Outcome, ProbeRequest
from runs.config.rules.extensions import ENVIRONMENT_CALLBACKS, STEP_CALLBACKS, WRAPPERS

Report = Callable[[Outcome], None]
CPU_SECONDS: Final = 60
MEMORY_BYTES: Final = 16 * 1024**3
FILE_BYTES: Final = 64 * 1024**2
LONGEST_MESSAGE: Final = 500
EPISODE_SECONDS: Final = 5.0
"""Time after which an episode of random actions is cut."""
MISSING: Final = frozenset({"dependency_missing", "dataset_missing"})
"""Kinds of failures that other machines may not have."""


def main() -> None:
    """Probe the request on standard input; output of the probed code is discarded."""
    answer = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ProbeRequest)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    began = time.monotonic()

    def report(outcome: Outcome) -> None:
        seconds = round(time.monotonic() - began, 2)
        line = msgspec.json.encode(msgspec.structs.replace(outcome, seconds=seconds))
        answer.write(line + b"\n")
        answer.flush()

    report(probe(request, report=report))
    # Threads and exit handlers of imported code must not keep the process alive.
    os._exit(0)


def probe(request: ProbeRequest, *, report: Report = lambda _: None) -> Outcome:
    """Return the result of a probe; exceptions are returned as `trouble`.

    `report` receives the result so far before the policy is called, which may never return.
    """
    tries = {"environment": _environment, "lesson": _lesson}
    try:
        return tries[request.kind](request, report)
    except ModuleNotFoundError as error:
        return Outcome(trouble=f"module {error.name!r} not found", is_missing=True)
    except BaseException as error:  # noqa: BLE001 foreign code may raise anything
        return Outcome(trouble=_message(error), is_missing=_is_missing(error))


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:LONGEST_MESSAGE]


def _is_missing(error: BaseException) -> bool:
    from rollouts.fleet.environments.contract import UnknownEnvironment

    return (
        isinstance(error, UnknownEnvironment)
        or getattr(error, "is_missing", False)
        or getattr(error, "kind", "") in MISSING
        or type(error).__name__ == "DependencyNotInstalled"
    )


def _environment(request: ProbeRequest, report: Report) -> Outcome:
    import numpy as np

    from rollouts.fleet.environments import loader as environments
    from rollouts.fleet.probe.first_episode import random_action, space_mismatch
    from rollouts.fleet.process.extensions import ExtensionFailed

    environments.import_registered_modules()
    made = environments.make(request.spec, request.kwargs)
    used: dict[str, Any] = {}
    for point in (WRAPPERS, ENVIRONMENT_CALLBACKS):
        stage: Any = point.field.rpartition(".")[2]
        if not getattr(request, stage):
            continue
        made.close()
        used[stage] = getattr(request, stage)
        report(Outcome(stage=stage, field=point.field))
        try:
            made = environments.make(request.spec, request.kwargs, **used)
            shown, taken = environments.describe(made)
            first, _ = made.reset(seed=0)
            obs, _, _, _, _ = made.step(random_action(taken, np.random.default_rng(0)))
            outside = space_mismatch(first, shown) or space_mismatch(obs, shown)
        except ExtensionFailed as error:
            trouble = error.message[:LONGEST_MESSAGE]
            return Outcome(trouble=trouble, field=error.field, is_missing=error.is_missing)
        except Exception as error:  # noqa: BLE001 foreign code may raise anything
            return Outcome(trouble=_message(error), field=point.field)
        if outside:
            return Outcome(trouble=outside, field=point.field)
    return _made(request, made, report)


def _made(request: ProbeRequest, made: Any, report: Report) -> Outcome:
    from rollouts.fleet.environments import loader as environments
    from rollouts.fleet.environments.contract import begun
    from rollouts.fleet.probe import first_episode

    shown, taken = environments.describe(made)
    obs, _ = begun(made.reset(seed=0))
    outcome = Outcome(
        observation=str(shown),
        action=str(taken),
        shows_images=shown.is_image or any(part.is_image for part in shown.parts.values()),
        bytes_per_step=_bytes(shown) + _bytes(taken),
    )
    if request.episode_steps:
        report(msgspec.structs.replace(outcome, stage="episode"))
        try:
            episode = first_episode.play(
                made, shown, taken, steps=request.episode_steps, seconds=EPISODE_SECONDS
            )
            outcome = msgspec.structs.replace(outcome, episode=episode)
            obs, _ = begun(made.reset(seed=0))
        except Exception as error:  # noqa: BLE001 foreign code may raise anything
            return msgspec.structs.replace(outcome, trouble=_message(error))
        if episode.outside and request.run_config:
            return msgspec.structs.replace(outcome, trouble=episode.outside)
    if request.policy:
        report(msgspec.structs.replace(outcome, stage="policy"))
        policy = _step_policy(request.policy, made, shown, taken, obs)
        outcome = msgspec.structs.replace(outcome, **policy)
    made.close()
    if request.run_config and not outcome.policy_trouble:
        outcome = _with_fragment(request, outcome, report)
    return outcome


def _with_fragment(request: ProbeRequest, outcome: Outcome, report: Report) -> Outcome:
    """Return the outcome after a worker of the run has made a fragment."""
    has_callbacks = bool(request.run_config["environment"]["step_callbacks"])
    field = STEP_CALLBACKS.field if has_callbacks else ""
    stage: Any = "step_callbacks" if has_callbacks else "worker"
    report(msgspec.structs.replace(outcome, stage=stage, field=field))
    try:
        from rollouts.fleet.probe.worker_steps import run_worker

        made = run_worker(request.run_config)
    except Exception as error:  # noqa: BLE001 foreign code may raise anything
        return msgspec.structs.replace(
            outcome,
            trouble=_message(error),
            field=field,
            is_missing=isinstance(error, ImportError),
        )
    if made.event is None:
        return msgspec.structs.replace(
            outcome, fragment_bytes=made.push_bytes, fragment_problem=made.problem
        )
    details = made.event.details
    text = str(details.get("error") or made.event.message).strip().rpartition("\n")[2]
    return msgspec.structs.replace(
        outcome,
        trouble=text[:LONGEST_MESSAGE],
        field=str(details.get("field", "")),
        is_missing=details.get("is_missing") is True,
    )


def _step_policy(
    settings: Mapping[str, Any], made: Any, shown: Any, taken: Any, obs: Any
) -> dict[str, Any]:
    """Build a policy and take one step; return the fields of the outcome."""
    import numpy as np

    from rolldeck.safetensors import array_of
    from rollouts.fleet.policies.factory import make_module, make_policy
    from rollouts.fleet.policies.policy_protocol import for_environment
    from runs.config.rules.sections import PolicyConfig

    try:
        config = msgspec.convert(settings, PolicyConfig)
        if config.precision == "float16":  # only on a GPU, which the probe does not use
            config = msgspec.structs.replace(config, precision="bfloat16")
        policy = make_policy(config, shown, taken, seed=0, device="cpu")
        module = make_module(config, shown, taken)
        tensors = {name: array_of(value) for name, value in module.state_dict().items()}
        policy.adopt(policy.prepare(tensors))
        rows = np.array([obs, obs], dtype=shown.array_dtype)
        decision = policy.act(rows, policy.initial_state(2), np.ones(2, dtype=np.bool_))
        made.step(for_environment(decision.actions, taken)[0])
    except Exception as error:  # noqa: BLE001 foreign code may raise anything
        is_missing = isinstance(error, ImportError) or _is_missing(error.__cause__ or error)
        return {"policy_trouble": _message(error), "is_policy_missing": is_missing}
    return {"parameters": sum(one.numel() for one in module.parameters())}


def _bytes(space: Any) -> int:
    values = 1
    for length in space.shape:
        values *= length
    return int(values * space.array_dtype.itemsize)


def _lesson(request: ProbeRequest, _: Report) -> Outcome:
    from rollouts.fleet.environments.loader import import_registered_modules
    from rollouts.fleet.groups.environment_loader import load_environment

    import_registered_modules()
    environment = load_environment(request.spec, request.kwargs)
    return Outcome(observation=getattr(environment, "description", ""))


if __name__ == "__main__":
    main()

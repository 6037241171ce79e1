"""Code and environments that a run may name.

The web process imports none of it. Registered names come from a setting or from installed packages.
Workers and env processes import the code and perform the final check.

Besides the built-in ones they are :mod:`runs.config.rules.extensions`.

The web process imports no environments. This list holds the registry's environments without extra
dependencies; environments registered by administrators come from a setting. The fleet creates the
environment and performs the final check.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runs.config.rules.run_config import InvalidRunConfig, combined
from runs.config.rules.sections import ExtensionConfig, PolicyConfig

# Code of other packages that a run may name: policies, wrappers, step callbacks and rewards.


@dataclass(frozen=True, slots=True)
class ExtensionPoint:
    """A field of the configuration that names registered code."""

    field: str
    setting: str
    """Variable that lists names of the form ``module:<import.path>:<Name>``."""
    entry_points: str
    """Group of entry points by which an installed package registers names ``package:<name>``."""


POLICIES: Final = ExtensionPoint("policy.kind", "ROLLDECK_POLICIES", "rolldeck.policies")
WRAPPERS: Final = ExtensionPoint(
    "environment.wrappers", "ROLLDECK_ENVIRONMENT_WRAPPERS", "rolldeck.environment_wrappers"
)
ENVIRONMENT_CALLBACKS: Final = ExtensionPoint(
    "environment.callbacks", "ROLLDECK_ENVIRONMENT_CALLBACKS", "rolldeck.environment_callbacks"
)
STEP_CALLBACKS: Final = ExtensionPoint(
    "environment.step_callbacks", "ROLLDECK_STEP_CALLBACKS", "rolldeck.step_callbacks"
)
REWARDS: Final = ExtensionPoint("rewards", "ROLLDECK_REWARDS", "rolldeck.rewards")

LISTS: Final = (WRAPPERS, ENVIRONMENT_CALLBACKS, STEP_CALLBACKS)


def check(
    point: ExtensionPoint, extensions: Sequence[ExtensionConfig], *, registered: Collection[str]
) -> None:
    """Check that every extension of a list is registered.

    Raises:
        InvalidRunConfig: If one is not; `field` is its dotted path.
    """
    errors = [
        not_registered(point, f"{point.field}[{position}].kind", extension.kind, sorted(registered))
        for position, extension in enumerate(extensions)
        if extension.kind not in registered
    ]
    if errors:
        raise combined(errors)


def not_registered(
    point: ExtensionPoint, field: str, kind: str, known: Sequence[str]
) -> InvalidRunConfig:
    """Return the error for a name that is not among those `known`."""
    return InvalidRunConfig(
        field,
        f"{kind!r} is not registered: an administrator must add it to {point.setting} on the "
        f"platform and on every machine of its fleets; known: {', '.join(known) or 'none'}",
    )


def with_choices(schema: dict[str, Any], registered: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the JSON schema of a run configuration with `x-choices`, the names by field."""
    environment = schema["$defs"]["EnvironmentConfig"]
    fields = dict(environment["properties"])
    for path, names in registered.items():
        field = path.rpartition(".")[2]
        fields[field] = {**fields[field], "x-choices": list(names)}
    described = {**environment, "properties": fields}
    return {**schema, "$defs": {**schema["$defs"], "EnvironmentConfig": described}}


# Policies that a run may name.

BUILT_IN: Final = ("mlp", "cnn", "gru")


def check_policy(policy: PolicyConfig, *, registered: Collection[str]) -> None:
    """Check that a policy is built in or registered.

    Args:
        policy: Policy settings of a run.
        registered: Kinds that an administrator allows.

    Raises:
        InvalidRunConfig: If the kind is unknown, or a built-in policy has keyword arguments.
    """
    if policy.kind in BUILT_IN:
        if policy.kwargs:
            raise InvalidRunConfig(
                "policy.kwargs", f"{policy.kind} takes no arguments; only registered policies do"
            )
        return
    if policy.kind not in registered:
        known = [*BUILT_IN, *sorted(registered)]
        raise not_registered(POLICIES, POLICIES.field, policy.kind, known)


def with_policies(schema: dict[str, Any], registered: Collection[str]) -> dict[str, Any]:
    """Return the JSON schema of a run configuration with the policies of this server."""
    policy = schema["$defs"]["PolicyConfig"]
    kind = {**policy["properties"]["kind"], "enum": [*BUILT_IN, *sorted(registered)]}
    described = {**policy, "properties": {**policy["properties"], "kind": kind}}
    return {**schema, "$defs": {**schema["$defs"], "PolicyConfig": described}}


# Environments that a run may name.

FIELD: Final = "environment.spec"
SETTING: Final = "ROLLDECK_ENVIRONMENTS"
KNOWN: Final[dict[str, frozenset[str]]] = {
    "gymnasium": frozenset(
        {"Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"}
    ),
    "rolldeck": frozenset({"catch-v0", "recall-v0"}),
    "minestudio": frozenset({"MinecraftSim"}),
}
SHOWS_IMAGES: Final = frozenset({"rolldeck:catch-v0", "minestudio:MinecraftSim"})


def check_environment(spec: str, *, registered: Collection[str] = ()) -> None:
    """Check that `spec` names an environment that fleets can create.

    Args:
        spec: ``<kind>:<id>``.
        registered: Further specs that an administrator allows.

    Raises:
        InvalidRunConfig: If the kind or the name is unknown; `field` is its dotted path.
    """
    if spec in registered:
        return
    kind, _, name = spec.partition(":")
    if kind not in KNOWN:
        raise InvalidRunConfig(
            FIELD,
            f"{spec!r} is not registered: an administrator must add it to {SETTING} on the "
            f"platform and on every machine that steps environments; known kinds: "
            f"{', '.join(KNOWN)}",
        )
    if name not in KNOWN[kind]:
        raise InvalidRunConfig(
            FIELD,
            f"{kind} has no environment {name!r}; known: {', '.join(sorted(KNOWN[kind]))}; "
            f"an administrator may add others to {SETTING}",
        )


def check_observations(spec: str, kind: str) -> None:
    """Check that the policy can process the environment's observations, as far as known here.

    Raises:
        InvalidRunConfig: If it cannot.
    """
    registry, _, name = spec.partition(":")
    if kind == "cnn" and name in KNOWN.get(registry, ()) and spec not in SHOWS_IMAGES:
        raise InvalidRunConfig("policy.kind", f"a cnn needs image observations; {spec} has none")

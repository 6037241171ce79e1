"""Code of other packages that a run may name: policies, wrappers, step callbacks and rewards.

The web process imports none of it. Registered names come from a setting or from installed packages.
Workers and env processes import the code and perform the final check.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from runs.config.rules.environment_config import ExtensionConfig
from runs.config.rules.run_config import InvalidRunConfig, combined


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

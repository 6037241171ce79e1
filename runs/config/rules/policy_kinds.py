"""Policies that a run may name.

The web process imports no policies. Registered policies come from a setting or from installed
packages. The fleet creates the policy and performs the final check.
"""

from collections.abc import Collection
from typing import Any, Final

from runs.config.rules.policy_config import PolicyConfig
from runs.config.rules.run_config import InvalidRunConfig

BUILT_IN: Final = ("mlp", "cnn", "gru")
SETTING: Final = "ROLLDECK_POLICIES"
ENTRY_POINTS: Final = "rolldeck.policies"
"""Group of entry points by which an installed package registers policies."""


def check(policy: PolicyConfig, *, registered: Collection[str]) -> None:
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
        raise InvalidRunConfig(
            "policy.kind",
            f"{policy.kind!r} is not registered: an administrator must add it to {SETTING} on the "
            f"platform and on every machine with workers; known: "
            f"{', '.join([*BUILT_IN, *sorted(registered)])}",
        )


def with_registered(schema: dict[str, Any], registered: Collection[str]) -> dict[str, Any]:
    """Return the JSON schema of a run configuration with the policies of this server."""
    policy = schema["$defs"]["PolicyConfig"]
    kind = {**policy["properties"]["kind"], "enum": [*BUILT_IN, *sorted(registered)]}
    described = {**policy, "properties": {**policy["properties"], "kind": kind}}
    return {**schema, "$defs": {**schema["$defs"], "PolicyConfig": described}}

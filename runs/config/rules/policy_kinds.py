"""Policies that a run may name.

Besides the built-in ones they are :mod:`runs.config.rules.extensions`.
"""

from collections.abc import Collection
from typing import Any, Final

from runs.config.rules.extensions import POLICIES, not_registered
from runs.config.rules.policy_config import PolicyConfig
from runs.config.rules.run_config import InvalidRunConfig

BUILT_IN: Final = ("mlp", "cnn", "gru")


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
        known = [*BUILT_IN, *sorted(registered)]
        raise not_registered(POLICIES, POLICIES.field, policy.kind, known)


def with_registered(schema: dict[str, Any], registered: Collection[str]) -> dict[str, Any]:
    """Return the JSON schema of a run configuration with the policies of this server."""
    policy = schema["$defs"]["PolicyConfig"]
    kind = {**policy["properties"]["kind"], "enum": [*BUILT_IN, *sorted(registered)]}
    described = {**policy, "properties": {**policy["properties"], "kind": kind}}
    return {**schema, "$defs": {**schema["$defs"], "PolicyConfig": described}}

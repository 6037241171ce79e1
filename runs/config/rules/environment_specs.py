"""Environments that a run may name.

The web process imports no environments. This list holds the registry's environments without extra
dependencies; environments registered by administrators come from a setting. The fleet creates the
environment and performs the final check.
"""

from collections.abc import Collection
from typing import Final

from runs.config.rules.run_config import InvalidRunConfig

FIELD: Final = "environment.spec"
SETTING: Final = "ROLLDECK_ENVIRONMENTS"
KNOWN: Final[dict[str, frozenset[str]]] = {
    "gymnasium": frozenset(
        {
            "Acrobot-v1",
            "CartPole-v1",
            "MountainCar-v0",
            "MountainCarContinuous-v0",
            "Pendulum-v1",
        }
    ),
    "rolldeck": frozenset({"catch-v0", "recall-v0"}),
    "minestudio": frozenset({"MinecraftSim"}),
}
SHOWS_IMAGES: Final = frozenset({"rolldeck:catch-v0", "minestudio:MinecraftSim"})


def check(spec: str, *, registered: Collection[str] = ()) -> None:
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


def check_policy(spec: str, kind: str) -> None:
    """Check that the policy can process the environment's observations, as far as known here.

    Raises:
        InvalidRunConfig: If it cannot.
    """
    registry, _, name = spec.partition(":")
    if kind == "cnn" and name in KNOWN.get(registry, ()) and spec not in SHOWS_IMAGES:
        raise InvalidRunConfig("policy.kind", f"a cnn needs image observations; {spec} has none")

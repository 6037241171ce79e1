"""Name the environments that a run may ask for.

The web side imports no environment, so what its registry offers without extra dependencies is
written down here, and what administrators registered comes as a setting; the fleet makes the
environment and has the last word.
"""

from collections.abc import Collection
from typing import Final

from runs.core.run_config import InvalidRunConfig

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
    """Accept `spec` when it names an environment that fleets can make.

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
            f"{spec!r} is not registered: an administrator must add it to {SETTING}, here and on "
            f"every machine that steps environments; without that there are {', '.join(KNOWN)}",
        )
    if name not in KNOWN[kind]:
        raise InvalidRunConfig(
            FIELD,
            f"{kind} has no environment {name!r}; known: {', '.join(sorted(KNOWN[kind]))}; "
            f"an administrator may add others to {SETTING}",
        )


def check_policy(spec: str, kind: str) -> None:
    """Accept a policy that can take what the environment shows, as far as that is known here.

    Raises:
        InvalidRunConfig: If it cannot.
    """
    registry, _, name = spec.partition(":")
    if kind == "cnn" and name in KNOWN.get(registry, ()) and spec not in SHOWS_IMAGES:
        raise InvalidRunConfig("policy.kind", f"a cnn needs images, and {spec} shows none")

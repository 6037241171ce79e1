"""Name the environments that a run may ask for.

The web side cannot import gymnasium, so what its registry offers without extra dependencies is
written down here; the fleet makes the environment and has the last word.
"""

from typing import Final

from runs.core.run_config import InvalidRunConfig

FIELD: Final = "environment.spec"
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
}


def check(spec: str) -> None:
    """Accept `spec` when it names an environment that fleets can make.

    Raises:
        InvalidRunConfig: If the registry or the name is unknown; `field` is its dotted path.
    """
    registry, _, name = spec.partition(":")
    if registry not in KNOWN:
        raise InvalidRunConfig(
            FIELD, f"{registry!r} is no registry of environments; known: {', '.join(KNOWN)}"
        )
    if name not in KNOWN[registry]:
        raise InvalidRunConfig(
            FIELD,
            f"{registry} has no environment {name!r}; known: {', '.join(sorted(KNOWN[registry]))}",
        )

import gymnasium
import pytest

from runs.config.rules.extensions import KNOWN


@pytest.mark.parametrize("name", sorted(KNOWN["gymnasium"]))
def test_every_known_environment_is_registered_in_gymnasium(name: str) -> None:
    assert name in gymnasium.registry

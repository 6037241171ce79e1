"""The simulated rates of pushes keep to the bounds of their costs."""

import pytest

from benchmarks.push_simulation import Costs, groups_a_second

COSTS = Costs(groups_s=0.0, web_ms=4.0, postgres_ms=0.5, client_ms=0.5)


@pytest.mark.parametrize(
    ("clients", "processes", "cores", "expected"),
    [
        (1, 1, 8, 200.0),  # one client: the sum of all stages
        (16, 1, 8, 250.0),  # one web process
        (16, 4, 16, 1000.0),
        (16, 4, 2, 400.0),  # two cores for everything
        (16, 16, 1, 200.0),
    ],
)
def test_the_rate_is_that_of_the_scarcest_resource(
    clients: int, processes: int, cores: int, expected: float
) -> None:
    rate = groups_a_second(COSTS, clients=clients, processes=processes, cores=cores)

    assert rate == pytest.approx(expected, rel=0.03)

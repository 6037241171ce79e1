"""Settings have a stable fingerprint, and seeds do not depend on the size of the fleet."""

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouts.fleet.process.settings import FleetSettings, derive_seed
from rollouts.fleet.steps.env_messages import Began
from rollouts.fleet.steps.env_worker import EnvWorker
from rollouts.fleet.steps.envs_in_worker import EnvsInWorker
from runs.config.rules.sections import EnvironmentConfig

MakeSettings = Callable[..., FleetSettings]


def first_observations(
    *groups: range, kind: type[EnvWorker | EnvsInWorker] = EnvWorker
) -> dict[int, float]:
    """Return the first observation of each slot, with one process per group of slots."""
    shown: dict[int, float] = {}
    for slots in groups:
        worker = kind(EnvironmentConfig(spec="odd:any"), slots=slots, base_seed=3)
        worker.start()
        begun = 0
        while begun < len(slots):
            begun += sum(isinstance(message, Began) for message in worker.receive())
        shown |= {slot: float(worker.observation(row)[1]) for row, slot in enumerate(slots)}
        worker.close()
    return shown


def test_a_slot_gets_its_seed_however_many_others_there_are() -> None:
    together = first_observations(range(4))
    apart = first_observations(range(1), range(1, 3), range(3, 4))
    more = first_observations(range(8))
    inside = first_observations(range(4), kind=EnvsInWorker)

    assert together == apart == inside
    assert together.items() <= more.items()
    assert len(set(together.values())) == 4


@given(base=st.integers(0, (1 << 31) - 1), index=st.integers(0, 1023), slot=st.integers(0, 1023))
def test_seeds_are_valid_for_environments_and_torch(base: int, index: int, slot: int) -> None:
    seed = derive_seed(derive_seed(base, "worker", index), "slot", slot, 0)

    assert 0 <= seed < 1 << 31


def test_seeds_are_unchanged() -> None:
    # A run continued by a later release must not repeat its random numbers.
    assert [derive_seed(0, "worker", index) for index in range(3)] == [
        438125024,
        1445191819,
        1904188507,
    ]


def test_the_fingerprint_does_not_depend_on_the_order_of_settings(
    make_settings: MakeSettings,
) -> None:
    settings = make_settings()
    turned = msgspec.structs.replace(
        settings, run_config=dict(reversed(list(settings.run_config.items())))
    )

    assert list(turned.run_config) != list(settings.run_config)
    assert turned.fingerprint == settings.fingerprint


@pytest.mark.parametrize("change", [{"num_workers": 2}, {"placement": "pack"}, {"url": "http://x"}])
def test_other_settings_have_another_fingerprint(
    make_settings: MakeSettings, change: dict[str, object]
) -> None:
    assert make_settings(**change).fingerprint != make_settings().fingerprint

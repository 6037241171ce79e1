"""Fingerprints of what the platform wants of a fleet."""

from typing import Any

import pytest

from rollouts.core.control import fingerprint, is_urgent


def print_of(**changed: Any) -> str:
    orders = {"desired": "running", "epoch": 1, "policy_step": 3, "admission_remaining": 8}
    return fingerprint(**{**orders, **changed})


CHANGES = [{"desired": "paused"}, {"epoch": 2}, {"policy_step": 4}, {"admission_remaining": 7}]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_the_fingerprint_changes_with_each_of_its_parts(change: dict[str, Any]) -> None:
    assert print_of(**change) != print_of()


def test_the_same_orders_have_the_same_fingerprint() -> None:
    assert print_of() == print_of()


@pytest.mark.parametrize("change", CHANGES[:3], ids=lambda change: next(iter(change)))
def test_new_orders_are_urgent(change: dict[str, Any]) -> None:
    assert is_urgent(seen=print_of(), current=print_of(**change))


def test_a_little_less_room_is_not_urgent() -> None:
    assert not is_urgent(seen=print_of(), current=print_of(admission_remaining=7))


@pytest.mark.parametrize(("before", "after"), [(0, 4), (4, 0)])
def test_a_buffer_that_fills_up_or_opens_again_is_urgent(before: int, after: int) -> None:
    seen = print_of(admission_remaining=before)

    assert is_urgent(seen=seen, current=print_of(admission_remaining=after))


@pytest.mark.parametrize("seen", ["", "nonsense", "a.b.c"])
def test_a_fleet_that_knows_nothing_hears_at_once(seen: str) -> None:
    assert is_urgent(seen=seen, current=print_of())

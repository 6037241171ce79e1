"""Fingerprints of the desired state of a fleet."""

from typing import Any

import pytest

from rollouts.control.rules import fingerprint


def print_of(**changed: Any) -> str:
    orders = {"desired": "running", "epoch": 1, "policy_step": 3, "admission_remaining": 8}
    return fingerprint(**{**orders, **changed})


CHANGES = [
    {"desired": "paused"},
    {"epoch": 2},
    {"policy_step": 4},
    {"admission_remaining": 7},
    {"num_workers": 2},
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_the_fingerprint_changes_with_each_of_its_parts(change: dict[str, Any]) -> None:
    assert print_of(**change) != print_of()


def test_the_same_commands_have_the_same_fingerprint() -> None:
    assert print_of() == print_of()

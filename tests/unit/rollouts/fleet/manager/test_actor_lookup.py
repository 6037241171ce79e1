"""A manager's actor is found, or missing while Ray removes it."""

import pytest

from rollouts.fleet.manager import actors


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ValueError("Failed to look up actor"), id="no such name"),
        # What ray 2.60 raises from the moment when it has deleted the actor's class.
        pytest.param(AssertionError("Expected str or bytes, got NoneType"), id="its class is gone"),
    ],
)
def test_an_actor_that_ended_is_missing(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def get_actor(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("ray.get_actor", get_actor)

    assert actors.find(namespace="rolldeck", name="pole") is None


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def get_actor(*_: object, **__: object) -> None:
        raise ConnectionError("the cluster is gone")

    monkeypatch.setattr("ray.get_actor", get_actor)

    with pytest.raises(ConnectionError):
        actors.find(namespace="rolldeck", name="pole")

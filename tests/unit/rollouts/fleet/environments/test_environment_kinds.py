"""A spec builds its environment, if an administrator has allowed it."""

import sys
from itertools import product
from typing import Any

import numpy as np
import pytest

from rollouts.fleet.environments.contract import UnknownEnvironment
from rollouts.fleet.environments.loader import describe, make

REGISTERED = "module:my_lab:Maze"


def test_a_registered_class_is_created_with_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", f"gymnasium:ALE/Pong-v5, {REGISTERED}")

    maze: Any = make(REGISTERED, {"doors": 3})

    assert maze.doors == 3


def test_an_unregistered_class_is_not_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "my_lab", raising=False)

    with pytest.raises(UnknownEnvironment, match=r"administrator must add it to ROLLDECK_ENV"):
        make(REGISTERED, {})

    assert "my_lab" not in sys.modules


def test_an_id_that_would_make_gymnasium_import_a_module_must_be_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "my_lab", raising=False)

    with pytest.raises(UnknownEnvironment, match="not registered"):
        make("gymnasium:my_lab:Maze-v0", {})

    assert "my_lab" not in sys.modules


@pytest.mark.parametrize("spec", ["module:my_lab:Nothing", "module:no.such:Maze"])
def test_a_missing_registered_class_is_named(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", spec)

    with pytest.raises(UnknownEnvironment, match="is registered, but"):
        make(spec, {})


def test_an_unknown_environment_of_ours_is_refused() -> None:
    with pytest.raises(UnknownEnvironment, match="known: catch-v0, recall-v0"):
        make("rolldeck:chess-v0", {})


def play(environment: Any, actions: list[int], *, seed: int | None = None) -> tuple[Any, float]:
    """Return all observations of an episode and its return; actions may run out early."""
    shown, total = [environment.reset(seed=seed)[0]], 0.0
    for at, action in enumerate(actions):
        obs, reward, terminated, truncated, _ = environment.step(action)
        total += float(reward)
        assert (terminated, truncated) == (at == len(actions) - 1, False)
        shown.append(obs)
    return np.stack(shown), total


def test_recall_shows_the_cue_once_and_requests_it_later() -> None:
    environment = make("rolldeck:recall-v0", {"cues": 3, "delay": 2})

    shown, _ = play(environment, [0, 0, 0, 0], seed=4)

    cue = int(shown[0].argmax())
    assert shown[0].tolist() == np.eye(4)[cue].tolist()
    assert shown[1:3].any() == 0
    assert shown[3].tolist() == [0, 0, 0, 1]
    # Only the answer counts; earlier actions have no effect.
    assert play(environment, [1, 2, 0, cue], seed=4)[1] == 1.0
    assert play(environment, [cue, cue, cue, (cue + 1) % 3], seed=4)[1] == 0.0


def test_recall_is_a_guess_for_a_policy_without_memory() -> None:
    environment = make("rolldeck:recall-v0", {"cues": 4, "delay": 1})
    cues = []
    episodes: dict[bytes, list[int]] = {}
    for seed in range(400):
        shown, _ = play(environment, [0, 0, 0], seed=seed)
        cues.append(int(shown[0].argmax()))
        # The last observation is the same in every episode.
        episodes.setdefault(shown[2].tobytes(), []).append(cues[-1])

    assert len(episodes) == 1
    best = max(np.bincount(cues)) / len(cues)
    assert best == pytest.approx(1 / 4, abs=0.06)


@pytest.mark.parametrize("kwargs", [{"cues": 1}, {"delay": -1}], ids=str)
def test_recall_refuses_invalid_arguments(kwargs: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="recall needs"):
        make("rolldeck:recall-v0", kwargs)


def test_catch_pays_for_the_paddle_below_the_ball() -> None:
    environment = make("rolldeck:catch-v0", {"height": 4, "width": 3})
    shown, taken = describe(environment)

    won = {
        seed: max(
            play(environment, list(moves), seed=seed)[1] for moves in product(range(3), repeat=3)
        )
        for seed in range(6)
    }
    board, _ = play(environment, [1, 1, 1], seed=0)

    assert shown.is_image
    assert taken.choices == 3
    assert set(won.values()) == {1.0}
    assert board.dtype == np.uint8
    assert [int((picture == 255).sum()) for picture in board[:3]] == [2, 2, 2]
    assert play(environment, [0, 0, 0], seed=0)[1] in {1.0, -1.0}

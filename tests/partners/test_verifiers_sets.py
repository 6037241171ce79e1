"""Task sets of the real verifiers package that run on a CPU: TextArena and OpenEnv."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.partners.openenv_process import bisect, guessing_server
from tests.partners.verifiers_bench import MakeBench

pytestmark = pytest.mark.partner

WORDS = ("cab", "bad", "ace")


def spell(prompt: str) -> str:
    """Return the first letter that the game has not revealed or refused yet, as a guess."""
    tried = set(re.findall(r"\[([a-e])\]", prompt))
    return f"[{min(set('abcde') - tried)}]"


def test_a_textarena_game_takes_turns_and_rewards_the_player(
    bench: MakeBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The game's word list, which NLTK otherwise downloads.
    words = tmp_path / "nltk" / "corpora" / "words"
    words.mkdir(parents=True)
    for name in ("en", "en-basic"):
        (words / name).write_text("\n".join(WORDS))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk"))
    monkeypatch.setenv("ROLLDECK_ENVIRONMENT_VARIABLES", "NLTK_DATA")
    env = {"taskset": {"id": "textarena", "game": "Hangman-v0"}}
    at = bench(spell, env=env, kwargs={"select": {"include": {"idx": ["0:4"]}}})

    batch, metrics = at.sample()

    assert batch is not None, at.events.pop()
    assert [rollout.reward for rollout in batch.rollouts] == [1.0] * 4
    assert metrics["env.game_reward"] == 1.0
    assert 3 <= metrics["env.turns"] <= 5


def test_an_openenv_set_sums_the_rewards_of_the_server(bench: MakeBench) -> None:
    with guessing_server("verifiers") as url:
        taskset: dict[str, Any] = {"id": "openenv", "base_url": url}
        resets = [{"seed": 4}, {"seed": 2}]
        at = bench(bisect, env={"taskset": taskset | {"resets": resets}})

        batch, metrics = at.sample()

    assert batch is not None, at.events.pop()
    rewards = sorted(rollout.reward for rollout in batch.rollouts)
    assert rewards == pytest.approx([0.8, 0.8, 1.0, 1.0])
    assert metrics["env.turns"] == 2

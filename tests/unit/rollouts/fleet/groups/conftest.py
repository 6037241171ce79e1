"""Workers of language runs with a model that takes a millisecond per step."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rollouts.fleet.engine.building import build
from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.groups.worker import GroupRolloutWorker
from rollouts.fleet.process.loops import EventLog
from runs.config.rules import run_config
from runs.config.rules.language_config import LanguageConfig
from tests.unit.rollouts.fleet.groups.odd_token_environments import SPECS
from tests.unit.rollouts.fleet.groups.recorded_outcomes import RecordedOutcomes

SHAPES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}


def language(lessons: dict[str, Any], **changes: Any) -> LanguageConfig:
    """Return the configuration of a language run with a small model."""
    model = SHAPES | changes.pop("model", {})
    changes.setdefault("evaluation", {"examples": 64})
    parsed = run_config.parse({"language": {"lessons": lessons, "model": model, **changes}})
    assert parsed.language is not None
    return parsed.language


@pytest.fixture(autouse=True)
def _odd_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", SPECS)


class Bench:
    """A worker with records of everything it sent."""

    def __init__(self, config: LanguageConfig, **changes: Any) -> None:
        torch.manual_seed(0)
        self.model, self.tokenizer = build(config)
        for weight in self.model.parameters():
            torch.nn.init.normal_(weight, mean=float(weight.dim() == 1), std=0.3)
        self.server = changes.pop("server", None) or TorchInferenceServer(
            self.model, rows=64, version=(1, 100), tokenizer=self.tokenizer
        )
        self.lessons = list(config.lessons)
        self.curriculum = RecordedOutcomes()
        self.events = EventLog()
        self.worker = GroupRolloutWorker(
            config,
            server=self.server,
            tokenizer=self.tokenizer,
            context_tokens=self.model.config.max_position_embeddings,
            curriculum=self.curriculum,
            events=self.events,
            **changes,
        )

    def sample(self, lesson: str, **changes: Any) -> Any:
        arguments: dict[str, Any] = {
            "n_examples": 4,
            "n_generations": 2,
            "mode": "train",
            "rng": Draw(7),
            "policy_version": (1, 100),
            "worker_id": "test_worker",
        }
        return self.worker.sample_batch(lesson, **(arguments | changes))

    def evaluate(self, lesson: str, **changes: Any) -> Any:
        arguments: dict[str, Any] = {
            "eval_type": "eval",
            "rng": Draw(0),
            "policy_version": (1, 100),
            "worker_id": "w",
        }
        return self.worker.evaluate_lesson(lesson, **(arguments | changes))


@pytest.fixture
def bench() -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(lessons: dict[str, Any], **changes: Any) -> Bench:
        workers = {name: changes.pop(name) for name in ("problem_seed", "now") if name in changes}
        made.append(Bench(language(lessons, **changes), **workers))
        return made[-1]

    yield make
    for one in made:
        one.worker.shutdown()

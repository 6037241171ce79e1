"""Workers whose only lesson is an environment of the real verifiers package."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.tokenizers import HuggingFaceTokenizer
from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.groups.worker import GroupRolloutWorker
from rollouts.fleet.process.loops import EventLog
from runs.config.rules import run_config
from tests.partners import chat_checkpoint
from tests.partners.scripted_policy import Script, ScriptedServer
from tests.unit.rollouts.fleet.groups.recorded_outcomes import RecordedOutcomes

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".partners" / "verifiers" / "bin" / "python"
QWEN = {"name": "qwen3", "enable_thinking": False}
SPEC = "verifiers:set"


class Bench:
    """A group worker with a real verifiers host, and records of its events."""

    def __init__(
        self, folder: Path, lessons: dict[str, Any], script: Script | None, context: int
    ) -> None:
        self.tokenizer = HuggingFaceTokenizer(folder)
        self.model = checkpoints.load(folder, device="cpu").eval()
        self.server: Any = (
            TorchInferenceServer(self.model, rows=16, version=(1, 100), tokenizer=self.tokenizer)
            if script is None
            else ScriptedServer(self.tokenizer, script, version=(1, 100))
        )
        parsed = run_config.parse({"language": {"lessons": lessons}}).language
        assert parsed is not None
        self.events = EventLog()
        self.worker = GroupRolloutWorker(
            parsed,
            server=self.server,
            tokenizer=self.tokenizer,
            context_tokens=context,
            curriculum=RecordedOutcomes(),
            events=self.events,
        )

    def sample(self, **changes: Any) -> Any:
        arguments: dict[str, Any] = {
            "n_examples": 2,
            "n_generations": 2,
            "mode": "train",
            "rng": Draw(7),
            "policy_version": (1, 100),
            "worker_id": "test_worker",
        }
        return self.worker.sample_batch("set", **(arguments | changes))


MakeBench = Callable[..., Bench]


def benches(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeBench]:
    """Yield a function that makes workers with a checkpoint in `folder`."""
    chat_checkpoint.write(folder)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", SPEC)
    made: list[Bench] = []

    def make(
        script: Script | None = None,
        *,
        env: dict[str, Any],
        kwargs: dict[str, Any] | None = None,
        context: int = chat_checkpoint.CONTEXT,
        **settings: Any,
    ) -> Bench:
        entry = {"python": str(PYTHON), "renderer": QWEN, "env": env} | settings
        monkeypatch.setenv("ROLLDECK_VERIFIERS", json.dumps({"set": entry}))
        lesson = {"spec": SPEC, "kwargs": kwargs or {}, "sampling": {"max_tokens": 12}}
        made.append(Bench(folder, {"set": lesson}, script, context))
        return made[-1]

    yield make
    for one in made:
        one.worker.shutdown()

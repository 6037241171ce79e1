"""The example trains on groups of the platform, and resumes after a kill."""

import threading
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytest_django.live_server_helper import LiveServer

from examples import grpo
from rolldeck.errors import NotFoundError, RunNotAcceptingError
from rolldeck.sender import GroupSender
from rolldeck.trainer import Trainer
from rollouts.fleet.engine.building import build
from rollouts.fleet.engine.checkpoints import load
from rollouts.fleet.groups.batches import RolloutGroup
from rollouts.fleet.groups.environments import RolloutRequest
from rollouts.fleet.groups.outcomes import split_by_variance
from rollouts.fleet.groups.policy_context import PolicyContext
from rollouts.fleet.groups.task_environment import TaskEnvironment
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.tasks.rules.task import make_task
from runs.config.rules.run_config import parse
from tests.factories import make_run, make_token

pytestmark = pytest.mark.django_db(transaction=True)

PROMPTS, ANSWERS, STEPS = 8, 8, 8
CONFIG: dict[str, Any] = {
    "language": {
        "lessons": {
            "reverse": {
                "spec": "task:reverse",
                "kwargs": {"length": 2, "letters": 4},
                "sampling": {"max_tokens": 6},
            }
        },
        "model": {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "intermediate_size": 64,
            "max_position_embeddings": 16,
        },
    },
    "buffer": {"batch_size": 32},
    "num_steps": STEPS,
}


class Fleet(threading.Thread):
    """Answers prompts with the newest weights, once for every version."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(daemon=True)
        self.stop = threading.Event()
        language = parse(CONFIG).language
        assert language is not None
        lesson = language.lessons["reverse"]
        model, tokenizer = build(language)
        self._server = TorchInferenceServer(model, rows=PROMPTS * ANSWERS)
        self._policy = PolicyContext(
            server=self._server,
            tokenizer=tokenizer,
            sampling=lesson.sampling,
            context_tokens=16,
            stop=self.stop,
        )
        self._environment = TaskEnvironment(make_task(lesson.spec, lesson.kwargs))
        self._weights = Trainer(url, "words", token)
        self._sender = GroupSender(url, "words", token)

    def run(self) -> None:
        while not self.stop.wait(0.05):
            try:
                manifest, tensors = self._weights.current_weights()
            except NotFoundError:
                continue
            if (manifest.epoch, manifest.step) == self._server.version:
                continue
            self._server.update_weights(tensors, (manifest.epoch, manifest.step))
            try:
                self._push(manifest.epoch, manifest.step)
            except RunNotAcceptingError:
                return

    def _push(self, epoch: int, step: int) -> None:
        selected: list[RolloutGroup] = []
        first = 1000 * step
        while len(selected) < PROMPTS // 2:
            numbers = range(first, first := first + PROMPTS)
            request = RolloutRequest(
                numbers=numbers, generations=ANSWERS, mode="train", problem_seed=0, seed=first
            )
            groups = self._environment.sample(self._policy, request).groups
            selected += split_by_variance(groups, rewards_of=lambda group: group.rewards)[0]
        self._sender.push_groups([in_the_wire(group, epoch, step) for group in selected])

    def close(self) -> None:
        self.stop.set()
        self.join(30)
        self._server.close()
        self._weights.close()
        self._sender.close()


def in_the_wire(group: RolloutGroup, epoch: int, step: int) -> dict[str, Any]:
    rows = group.rollouts
    return {
        "tokens": [np.array(row.tokens, dtype=np.int32) for row in rows],
        "masks": [np.where(row.is_own, row.tokens, -100).astype(np.int32) for row in rows],
        "inference_logprobs": [
            np.where(row.is_own, row.logprobs, 1.0).astype(np.float32) for row in rows
        ],
        "scores": group.rewards,
        "epoch": epoch,
        "policy_step": step,
    }


class Killed(Exception):
    pass


class Mortal(Trainer):
    """Exits before it logs a train step."""

    def log_metrics(self, metrics: Any, *, step: int) -> None:
        if step == STEPS // 2:
            raise Killed
        super().log_metrics(metrics, step=step)


def test_a_killed_trainer_resumes_with_its_weights_and_its_optimizer(
    live_server: LiveServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(name="words", config=CONFIG)
    token = make_token("env", "trainer", run=run)[1]
    args = Namespace(
        resume=False,
        checkpoints=tmp_path,
        models=None,
        checkpoint=None,
        advantages="grpo",
        tis=2.0,
        learning_rate=1e-3,
        device=torch.device("cpu"),
    )
    fleet = Fleet(live_server.url, token)
    fleet.start()
    try:
        with pytest.raises(Killed), Mortal(live_server.url, "words", token) as trainer:
            grpo.train(trainer, args)
        args.resume = True
        with Trainer(live_server.url, "words", token) as trainer:
            grpo.train(trainer, args)
            manifest, tensors = trainer.current_weights()
    finally:
        fleet.close()

    output = capsys.readouterr().out
    assert "imitated reverse:" in output
    assert f"from version {STEPS // 2}" in output
    assert "starting with a new optimizer" not in output
    assert (manifest.epoch, manifest.step) == (trainer.registration.epoch, STEPS)
    saved = load(tmp_path).embed.weight.detach().numpy()
    np.testing.assert_array_equal(saved, tensors["model.embed_tokens.weight"])

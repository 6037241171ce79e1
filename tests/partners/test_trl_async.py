"""`AsyncGRPOTrainer` of TRL on batches of a real server, with a two-layer Qwen.

Its attention kernel, which needs a GPU, is replaced by the same function in torch.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rolldeck.training.advantages import grpo
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.transformer import Transformer
from tests.partners.trl_runs import (
    language_run,
    logprobs_of,
    model_in,
    new_run,
    program,
    published,
    push,
    sampled_group,
    settings_of,
    states,
    write_checkpoint,
)
from tests.server import NO_RAY, Server, running_server

pytestmark = pytest.mark.partner

PROGRAM = "tests/partners/trl_async_program.py"
BATCH = 8
RATE = 0.05
CLIP = 0.2


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server") / "var", RAY_ADDRESS=NO_RAY) as started:
        yield started


@pytest.fixture(scope="module")
def checkpoint(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(server, tmp_path_factory.mktemp("checkpoint") / "qwen")


@pytest.fixture
def random() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def training_of(server: Server, run: str, checkpoint: Path, **settings: Any) -> str:
    """Return the settings of a training with batches of two groups of four sequences."""
    rollouts = {"batch_size": BATCH} | settings.pop("rollouts", {})
    return settings_of(server, run, checkpoint, rollouts=rollouts, **settings)


def train(model: Transformer, groups: list[dict[str, Any]]) -> None:
    """Make a step of SGD with TRL's clipped loss, calculated by hand."""
    terms = []
    for group in groups:
        advantages = torch.tensor(grpo(torch.tensor(group["scores"]).double().numpy())).float()
        tokens, masks = (torch.tensor(group[name]).long() for name in ("tokens", "masks"))
        behavior = torch.tensor(group["inference_logprobs"])[:, 1:]
        ratio = (logprobs_of(model, tokens) - behavior).exp()
        gains = (ratio * advantages[:, None], ratio.clamp(1 - CLIP, 1 + CLIP) * advantages[:, None])
        terms.append(torch.min(*gains)[masks[:, 1:] >= 0])
    (-torch.cat(terms).mean()).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= RATE * parameter.grad


def test_the_loss_contains_the_ratio_to_the_log_probabilities_of_the_inference_server(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    sampler = model_in(write_checkpoint(server, tmp_path / "sampler", seed=2))
    groups = [sampled_group(sampler, random) for _ in range(4)]
    run = new_run(server)
    push(server, run, groups)
    config = {
        "max_steps": 1,
        "optim": "sgd",
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1e9,
        "epsilon": CLIP,
    }

    arguments = training_of(server, run, checkpoint, config=config)
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        trainer.finish()

    assert trainer.lines("ended") == [{"ended": 1}]
    model = model_in(checkpoint)
    original = dict(checkpoints.named_tensors(model_in(checkpoint)))
    torch.testing.assert_close(published(server, run, 0), original, atol=0, rtol=0)
    train(model, groups[:2])
    expected = dict(checkpoints.named_tensors(model))
    torch.testing.assert_close(published(server, run, 1), expected, atol=2e-6, rtol=1e-4)
    name = "model.layers.0.mlp.down_proj.weight"
    assert (expected[name] - original[name]).abs().max() > 1e-3


@pytest.mark.parametrize("token_budget", [0, 120])
def test_only_batches_that_were_trained_on_are_acknowledged(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator, token_budget: int
) -> None:
    run, model = new_run(server), model_in(checkpoint)
    push(server, run, [sampled_group(model, random) for _ in range(24)])
    config = {"token_budget": token_budget, "max_steps": 6}

    arguments = training_of(server, run, checkpoint, config=config)
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        trainer.finish()

    counts = trainer.lines("trained")
    assert len(counts) == 6
    assert all(count["confirmed"] * BATCH <= count["trained"] for count in counts)
    assert counts[-1]["confirmed"] >= 3


def test_a_killed_trainer_gets_the_batches_that_it_did_not_train_on(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    run, model = new_run(server), model_in(checkpoint)
    push(server, run, [sampled_group(model, random) for _ in range(20)])

    stalling = training_of(server, run, checkpoint, config={"max_steps": 8}, stalls_at=5)
    with program(server, tmp_path / "first.log", PROGRAM, stalling) as killed:
        killed.wait_for("stalled")
        before = states(server, run)
        killed.process.kill()
        killed.process.wait()
    # After two of four complete steps, TRL had read three batches.
    assert [ordinal for ordinal, state in before.items() if state == "confirmed"] == [3, 2, 1]

    settings = {"config": {"max_steps": 3}, "rollouts": {"resume": True}}
    resuming = training_of(server, run, checkpoint, **settings)
    with program(server, tmp_path / "second.log", PROGRAM, resuming) as resumed:
        resumed.finish()

    again, first = resumed.lines("old_log_probs"), killed.lines("old_log_probs")
    assert again[:2] == first[3:5]
    steps = [row["step"] for row in server.get(f"/api/v1/runs/{run}/weights")["results"]]
    assert sorted(steps) == [*range(5), *range(5, 9)]


def test_stale_samples_are_dropped_by_the_version_that_generated_them(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    run, model = new_run(server), model_in(checkpoint)
    push(server, run, [sampled_group(model, random, policy_step=0) for _ in range(16)])
    config = {"max_steps": 3, "max_staleness": 0}

    arguments = training_of(server, run, checkpoint, config=config)
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        (logs,) = [trainer.wait_for("logs")["logs"]]
        server.post(f"/api/v1/runs/{run}/kill", {"reason": "the test is complete"})
        trainer.finish()

    assert logs["sample/staleness_max"] == 0
    (error,) = trainer.lines("error")
    assert error["error"] == "RunEndedError"
    assert len(trainer.lines("old_log_probs")) < 3


def test_an_unusable_group_is_an_error_of_the_training(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    run = new_run(server)
    group = sampled_group(model_in(checkpoint), random)
    push(server, run, [group, {**group, "inference_logprobs": None}])

    arguments = training_of(server, run, checkpoint, config={"max_steps": 1})
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        trainer.finish()

    (error,) = trainer.lines("error")
    assert "groups[1] of batch 1, inference_logprobs: missing" in error["message"]
    assert states(server, run) == {1: "leased"}


def test_lessons_with_another_temperature_are_refused(
    server: Server, checkpoint: Path, tmp_path: Path
) -> None:
    lesson = {"spec": "task:reverse", "sampling": {"temperature": 0.5}}
    run = language_run(server, {"lessons": {"reverse": lesson}})

    arguments = training_of(server, run, checkpoint, config={"max_steps": 1})
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        trainer.finish()

    (error,) = trainer.lines("error")
    assert error["message"] == "temperature is 1.0, but lesson 'reverse' samples with 0.5"


def test_a_rollout_worker_without_its_weight_transfer_is_refused(
    server: Server, checkpoint: Path, tmp_path: Path
) -> None:
    run = new_run(server)

    arguments = training_of(server, run, checkpoint, config={"max_steps": 1}, is_separate=True)
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        trainer.finish()

    (error,) = trainer.lines("error")
    assert error["message"] == "weight_transfer: must be the same object as rollout_worker"

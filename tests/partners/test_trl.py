"""`GRPOTrainer` of TRL on batches of a real server, with a two-layer Qwen."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.transformer import Transformer
from tests.partners.trl_runs import (
    PROGRAM,
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
from tests.server import ADMIN_TOKEN, NO_RAY, Server, running_server

pytestmark = pytest.mark.partner

RATE = 0.05
MOST = 1.5
"""Upper bound of a token's ratio."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server") / "var", RAY_ADDRESS=NO_RAY) as started:
        yield started


@pytest.fixture(scope="module")
def checkpoint(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(server, tmp_path_factory.mktemp("checkpoint") / "qwen")


@pytest.fixture
def random() -> torch.Generator:
    return torch.Generator().manual_seed(7)


def trained(model: Transformer, groups: list[dict[str, Any]], *, weighted: bool) -> float:
    """Make a step of SGD with the loss `dapo`, calculated by hand; return the mean ratio."""
    terms, ratios = [], []
    for group in groups:
        scores = torch.tensor(group["scores"])
        advantages = (scores - scores.mean()) / (scores.std() + 1e-4)
        tokens, masks = (torch.tensor(group[name]).long() for name in ("tokens", "masks"))
        zero = [bool(one) for one in group.get("overrides", [{}] * len(tokens))]
        mask = (masks[:, 1:] >= 0) & ~torch.tensor(zero)[:, None]
        logprobs = logprobs_of(model, tokens)
        behavior = torch.tensor(group["inference_logprobs"])[:, 1:]
        ratio = (logprobs.detach() - behavior).exp().clamp(max=MOST)
        weight = ratio if weighted else torch.ones_like(ratio)
        terms.append((weight * advantages[:, None] * logprobs)[mask])
        ratios.append(ratio[mask])
    every = torch.cat(terms)
    (-every.sum() / len(every)).backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= RATE * parameter.grad
    return float(torch.cat(ratios).mean())


def test_the_loss_is_weighted_by_the_log_probabilities_of_the_inference_server(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    sampler = model_in(write_checkpoint(server, tmp_path / "sampler", seed=2))
    overrides = [{}, {"set_advantage_to_zero": True}, {}, {}]
    groups = [sampled_group(sampler, random), sampled_group(sampler, random, overrides=overrides)]
    run = new_run(server)
    push(server, run, groups)
    config = {
        "max_steps": 1,
        "optim": "sgd",
        "learning_rate": RATE,
        "lr_scheduler_type": "constant",
        "max_grad_norm": 1e9,
        "loss_type": "dapo",
        "vllm_importance_sampling_mode": "token_truncate",
        "vllm_importance_sampling_clip_max": MOST,
    }

    arguments = settings_of(server, run, checkpoint, config=config)
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        trainer.finish()

    model, unweighted = model_in(checkpoint), model_in(checkpoint)
    mean = trained(model, groups, weighted=True)
    trained(unweighted, groups, weighted=False)
    found, expected = published(server, run, 1), dict(checkpoints.named_tensors(model))
    assert found.keys() == expected.keys()
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-4)
    name = "model.layers.0.mlp.down_proj.weight"
    difference = dict(checkpoints.named_tensors(unweighted))[name] - found[name]
    assert difference.abs().max() > 1e-3
    logs = trainer.lines("logs")[0]["logs"]
    assert float(logs["sampling/importance_sampling_ratio/mean"]) == pytest.approx(mean, rel=1e-4)
    assert states(server, run) == {1: "confirmed"}
    assert mean != pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("has_checkpoints", [False, True])
def test_a_killed_trainer_gets_the_same_batch_and_its_weights(
    server: Server,
    checkpoint: Path,
    tmp_path: Path,
    random: torch.Generator,
    has_checkpoints: bool,
) -> None:
    """With checkpoints, TRL also continues at its step and with its optimizer."""
    run = new_run(server, steps=5)
    model = model_in(checkpoint)
    push(server, run, [sampled_group(model, random) for _ in range(10)])

    config = {"output_dir": str(tmp_path / "output")}
    config |= {"save_strategy": "steps", "save_steps": 1} if has_checkpoints else {}
    stalling = settings_of(server, run, checkpoint, config=config, stalls_at=3)
    with program(server, tmp_path / "first.log", PROGRAM, stalling) as killed:
        killed.wait_for("stalled")
        killed.process.kill()
        killed.process.wait()
    assert states(server, run) == {3: "leased", 2: "confirmed", 1: "confirmed"}

    resuming = settings_of(
        server,
        run,
        checkpoint,
        config=config,
        rollouts={"resume": True},
        resume_from_checkpoint=has_checkpoints,
    )
    with program(server, tmp_path / "second.log", PROGRAM, resuming) as resumed:
        resumed.finish()

    first, second = killed.lines("batch"), resumed.lines("batch")
    assert [line["batch"] for line in first] == [1, 2, 3]
    assert [line["batch"] for line in second] == [3, 4, 5]
    assert second[0] == first[-1]
    assert second[0]["weights"] == digest(published(server, run, 2))
    assert resumed.lines("ended") == [{"ended": 5 if has_checkpoints else 3}]
    assert set(states(server, run).values()) == {"confirmed"}
    assert server.get(f"/api/v1/runs/{run}")["status"] == "completed"


def digest(tensors: dict[str, torch.Tensor]) -> str:
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode() + tensors[name].numpy().tobytes())
    return found.hexdigest()


@pytest.mark.parametrize(
    ("config", "publish_every", "confirmed", "versions"),
    [
        # A batch for each two optimizer steps: two passes over two halves, accumulated by two.
        ({"num_iterations": 2, "max_steps": 6}, 1, [0, 0, 1, 1, 2, 2], 3),
        # Two versions, each after two batches.
        ({"max_steps": 4}, 2, [0, 0, 2, 2], 2),
        # An odd number of batches: the last one is published at the end.
        ({"max_steps": 3}, 2, [0, 0, 2], 2),
        # Two batches in one optimizer step.
        (
            {"per_device_train_batch_size": 8, "steps_per_generation": 1, "max_steps": 2},
            1,
            [0, 2],
            2,
        ),
        # Batches that end in the middle of an optimizer step: three passes, accumulated by two.
        (
            {
                "per_device_train_batch_size": 8,
                "steps_per_generation": 1,
                "num_iterations": 3,
                "max_steps": 4,
            },
            1,
            [0, 0, 1, 2],
            2,
        ),
    ],
)
def test_batches_are_acknowledged_after_the_last_optimizer_step_with_them(
    server: Server,
    checkpoint: Path,
    tmp_path: Path,
    random: torch.Generator,
    config: dict[str, Any],
    publish_every: int,
    confirmed: list[int],
    versions: int,
) -> None:
    run = new_run(server)
    model = model_in(checkpoint)
    push(server, run, [sampled_group(model, random) for _ in range(12)])

    rollouts = {"publish_every": publish_every}
    arguments = settings_of(server, run, checkpoint, config=config, rollouts=rollouts, counts=True)
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        trainer.finish()

    assert [line["confirmed"] for line in trainer.lines("before_step")] == confirmed
    assert find_steps(server, run) == {*range(versions + 1)}


def test_a_run_completes_before_the_last_version_has_all_its_batches(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    run = new_run(server, steps=3)
    model = model_in(checkpoint)
    push(server, run, [sampled_group(model, random) for _ in range(6)])

    arguments = settings_of(server, run, checkpoint, rollouts={"publish_every": 2})
    with program(server, tmp_path / "log", PROGRAM, arguments) as trainer:
        trainer.finish()

    assert trainer.lines("ended") == [{"ended": 3}]
    assert server.get(f"/api/v1/runs/{run}")["status"] == "completed"
    assert find_steps(server, run) == {0, 1, 2}


def find_steps(server: Server, run: str) -> set[int]:
    return {row["step"] for row in server.get(f"/api/v1/runs/{run}/weights")["results"]}


TWO_PROCESSES = ("-m", "torch.distributed.run", "--nproc-per-node", "2")


def test_two_processes_train_on_disjoint_halves_of_each_batch(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    """Their weights, and those after a restart, are those of one process."""
    model = model_in(checkpoint)
    groups = [sampled_group(model, random) for _ in range(4)]
    config = {"optim": "sgd", "learning_rate": RATE, "max_grad_norm": 1e9}
    config |= {"loss_type": "dapo", "lr_scheduler_type": "constant"}
    alone, together = new_run(server), new_run(server)
    for run in (alone, together):
        push(server, run, groups)

    arguments = settings_of(server, alone, checkpoint, config=config | {"max_steps": 2})
    with program(server, tmp_path / "alone.log", PROGRAM, arguments) as trainer:
        trainer.finish()
    config |= {"max_steps": 1, "gradient_accumulation_steps": 1}
    for resume in (False, True):
        arguments = settings_of(
            server, together, checkpoint, config=config, rollouts={"resume": resume}
        )
        with program(server, tmp_path / "log", *TWO_PROCESSES, PROGRAM, arguments) as trainer:
            trainer.finish()

    for run in (alone, together):
        assert states(server, run) == {1: "confirmed", 2: "confirmed"}
    found, expected = (published(server, run, 2) for run in (together, alone))
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-4)


def test_an_error_of_the_main_process_ends_all_processes(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    run = new_run(server)
    group = sampled_group(model_in(checkpoint), random)
    push(server, run, [group, {**group, "inference_logprobs": None}])

    arguments = settings_of(server, run, checkpoint, config={"gradient_accumulation_steps": 1})
    with program(server, tmp_path / "log", *TWO_PROCESSES, PROGRAM, arguments) as trainer:
        assert trainer.process.wait(60) != 0

    assert "groups[1] of batch 1, inference_logprobs: missing" in trainer.log.read_text()
    assert states(server, run) == {1: "leased"}


def unusable_groups(good: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return groups that cannot be trained on, by their error."""
    foreign = good["tokens"].copy()
    foreign[0, 0] = 900
    first = good["masks"].copy()
    first[1, 0] = 3
    return {
        "inference_logprobs: missing": {**good, "inference_logprobs": None},
        "tokens: 900 is outside the 16 tokens": {**good, "tokens": foreign},
        "masks: the first token of sequence 1 is trained": {**good, "masks": first},
        "advantages: must be absent": {**good, "advantages": [0.5, 0.5, -0.5, -0.5]},
        "temperature: sequence 0 was sampled with 0.7": {
            **good,
            "generation_params": {"temperature": 0.7},
        },
        "has 3 sequences with tokens, but num_generations is 4": {
            **good,
            **{name: [*good[name][:3], []] for name in ("tokens", "masks", "inference_logprobs")},
        },
    }


def test_unusable_settings_and_groups_are_refused_by_name(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    model = model_in(checkpoint)
    good = sampled_group(model, random)
    cases, expected, leased = [], [], []
    for message, group in unusable_groups(good).items():
        run = new_run(server)
        push(server, run, [good, group])
        cases.append({"run": run})
        expected.append(message)
        leased.append(run)
    run = new_run(server)
    push(server, run, [sampled_group(model, random, sequences=2) for _ in range(4)])
    cases.append({"run": run})
    expected.append("has 2 sequences, but num_generations is 4")
    run = new_run(server)
    server.http.patch(f"/api/v1/runs/{run}", json={"batch_size": 12}).raise_for_status()
    cases.append({"run": run})
    expected.append("generation_batch_size is 8, but a batch of the run has 12 sequences")
    for field, config in {
        "max_steps is -1": {"max_steps": -1},
        "gradient_accumulation_steps: 1 batches per version and 16": {
            "gradient_accumulation_steps": 16,
            "steps_per_generation": 1,
        },
        "vllm_importance_sampling_mode: must be token_mask or": {"loss_type": "vespo"},
    }.items():
        cases.append({"run": new_run(server), "config": config})
        expected.append(field)
    run = new_run(server)
    push(server, run, [good, good])
    cases.append({"run": run, "config": {"eval_strategy": "steps", "eval_steps": 1}})
    expected.append("eval_strategy: must be 'no'")
    for field, language in {
        "temperature is 1.0, but lesson 'reverse' samples with 0.5": {
            "lessons": {"reverse": {"spec": "task:reverse", "sampling": {"temperature": 0.5}}}
        },
        "num_generations is 4, but groups of lesson 'reverse' have 2": {
            "lessons": {"reverse": {"spec": "task:reverse", "group_size": 2}}
        },
        "num_generations is 4, but lesson 'reverse' shrinks groups": {
            "lessons": {"reverse": {"spec": "task:reverse", "short_groups": "shrink"}}
        },
    }.items():
        cases.append({"run": language_run(server, language)})
        expected.append(field)

    settings = json.loads(settings_of(server, "", checkpoint))
    settings |= {"program": "refusals", "cases": cases}
    with program(server, tmp_path / "log", PROGRAM, json.dumps(settings)) as refused:
        refused.finish()

    found = [line.get("message") or "" for line in refused.lines("error")]
    assert len(found) == len(expected)
    for message, part in zip(found, expected, strict=True):
        assert part in message
    for run in leased:
        assert states(server, run) == {1: "leased"}


def test_the_example_trains_on_policy_with_the_weights_that_it_publishes(
    server: Server, checkpoint: Path, tmp_path: Path, random: torch.Generator
) -> None:
    """Its log probabilities equal those of the sampling weights, and its scores increase."""
    run = new_run(server)
    steps = 8
    words = ["--url", server.url, "--run", run, "--token", ADMIN_TOKEN]
    words += ["--checkpoint", str(checkpoint), "--output", str(tmp_path / "trained")]
    words += ["--sequences", "32", "--generations", "8", "--learning-rate", "0.01"]
    words += ["--steps", str(steps)]
    means = []
    with program(server, tmp_path / "log", "examples/trl_grpo.py", *words) as trainer:
        model = model_in(checkpoint)
        for step in range(steps):
            trainer.wait_for_version(server, run, step)
            checkpoints.assign(model, published(server, run, step))
            groups = [sampled_group(model, random, sequences=8) for _ in range(4)]
            means.append(sum(sum(group["scores"]) for group in groups) / 32)
            push(server, run, groups)
        trainer.finish()

    assert means[-1] > means[0]
    metrics = server.get(f"/api/v1/runs/{run}/metrics/names")["results"]
    assert "rewards/score/mean" in metrics
    checkpoints.assign(model, published(server, run, steps))
    kept = dict(checkpoints.named_tensors(model_in(tmp_path / "trained")))
    torch.testing.assert_close(kept, dict(checkpoints.named_tensors(model)))

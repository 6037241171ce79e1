"""Rollouts that failures cost, by the short-group policy of a lesson.

A worker answers problems in groups of 8, of which 5 % of the rollouts fail at random. Failed
rollouts, and complete ones that are dropped with their group, are lost.
"""

import random
from typing import Final

import torch

from benchmarks.bench import Bench, Figures, Row
from benchmarks.figures import Limit, Target
from benchmarks.machine import describe
from rollouts.fleet.engine.building import build
from rollouts.fleet.groups.batches import Draw
from rollouts.fleet.groups.curriculum import NoCurriculum
from rollouts.fleet.groups.short_groups import Losses
from rollouts.fleet.groups.task_environment import TaskEnvironment
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.groups.worker import GroupRolloutWorker
from rollouts.tasks.rules.task import EpisodeFailed, Example, Reply, Reverse, Turn
from runs.config.rules import run_config

FAILING: Final = 0.05
SIZE: Final = 8
PROMPTS: Final = 16
BATCHES: Final = 20
MODEL: Final = {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 48}


class Unreliable(Reverse):
    """A task whose tool fails at random."""

    draws = random.Random()  # noqa: S311 no secret

    def reply(self, example: Example, turns: list[Turn]) -> Reply:
        if self.draws.random() < FAILING:
            raise EpisodeFailed("tool_failed", "the sandbox ended")
        return super().reply(example, turns)


def _lost(policy: str, batches: int) -> float:
    """Return the share of lost rollouts in percent."""
    lesson = {"spec": "task:reverse", "short_groups": policy}
    language = {"lessons": {"reverse": lesson}, "model": MODEL}
    config = run_config.parse({"language": language}).language
    assert config is not None  # noqa: S101 parsed above
    torch.manual_seed(0)
    Unreliable.draws.seed(11)
    model, tokenizer = build(config)
    worker = GroupRolloutWorker(
        config,
        server=TorchInferenceServer(
            model, rows=SIZE * PROMPTS, version=(1, 0), tokenizer=tokenizer
        ),
        tokenizer=tokenizer,
        context_tokens=model.config.max_position_embeddings,
        curriculum=NoCurriculum(),
    )
    worker._environments["reverse"] = TaskEnvironment(Unreliable())  # noqa: SLF001
    losses: list[Losses] = []
    trained = 0
    try:
        for number in range(batches):
            batch, _ = worker.sample_batch(
                "reverse",
                n_examples=PROMPTS,
                n_generations=SIZE,
                mode="train",
                rng=Draw(number, number * PROMPTS),
                policy_version=(1, 0),
                worker_id="bench",
                on_losses=losses.append,
            )
            trained += len(batch.rollouts) if batch else 0
    finally:
        worker.shutdown()
    lost = sum(one.siblings + one.failed.total() for one in losses)
    return 100 * lost / (lost + trained)


def run(bench: Bench) -> Figures:
    batches = 2 if bench.tiny else BATCHES
    bench.machine = describe()

    def beside_drop(policy: str) -> Figures:
        return bench.compare(
            f"groups of {SIZE}, {policy}",
            ours=lambda: _lost(policy, batches),
            peer=lambda: _lost("drop", batches),
            better="less",
        )

    return beside_drop("refill") | {"shrink": beside_drop("shrink")}


ROW: Final = Row(
    name="short_groups",
    measure=f"rollouts lost of groups of {SIZE} of which 5 % of rollouts fail; refill, and shrink",
    peer="drop: the whole group",
    unit="% of rollouts",
    better="less",
    mark=Target(words="≤ 6 %", limits=(Limit(figure="ours", at_most=6.0),)),
    goal=None,
    run=run,
)

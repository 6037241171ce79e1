"""A language run with the example trainer generates on a real vLLM, through two updates or more."""

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import torch

from buffer.items.models import TrajectoryGroup
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import content_head
from examples import grpo
from rolldeck import groups
from rolldeck.trainer import Trainer
from rollouts.control.models import FleetWorker
from rollouts.curriculum.models import Evaluation
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.checkpoints import merged
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, save_tokenizer
from rollouts.fleet.engine.transformer import Transformer
from runs.config.rules.servers import OfferedServer
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests.factories import make_token
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.local_fleets import Platform, local_fleet
from tests.integration.rollouts.report_factories import change_status, draft, reconcile_run
from tests.live_server import serving
from tests.partners.vllm_server import (
    ADAPTER_OPTIONS,
    OPTIONS,
    TRANSFER_OPTIONS,
    VllmServer,
    write_tokenizer,
)
from tests.unit.rollouts.fleet.engine.small_models import logprobs, small_model
from tests.waiting import within

pytestmark = pytest.mark.partner

STEPS, ANSWERS = 3, 4
TOKENIZER = AlphabetTokenizer("0123456789:")
CONFIG: dict[str, Any] = {
    "language": {
        "lessons": {
            "sort": {
                "spec": "task:sort",
                "kwargs": {"length": 2},
                "sampling": {"max_tokens": 12},
            }
        },
        "model": {"checkpoint": "small", "tokenizer": "checkpoint", "max_position_embeddings": 64},
        "inference": "vllm",
        "group_size": ANSWERS,
        "prompts_per_batch": 4,
        "evaluation": {"examples": 64, "every_train_steps": 1, "micro_every_batches": 0},
    },
    "fleet": {"num_workers": 1},
    "buffer": {"batch_size": 16, "max_staleness": 1},
    "num_steps": STEPS,
}
Weights = Mapping[str, torch.Tensor]


def write_checkpoint(folder: Path) -> Transformer:
    """Write the model that run, trainer and vLLM start from; return it."""
    # vLLM on a CPU requires heads of at least 32, and an output layer of its own.
    model = small_model(
        vocab_size=TOKENIZER.vocab_size,
        max_position_embeddings=64,
        hidden_size=64,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        tie_word_embeddings=False,
    )
    folder.mkdir()
    checkpoints.save(model, folder)
    return model


@pytest.fixture
def vllm(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[VllmServer]:
    """Server of the model; a parameter holds further options."""
    folder = tmp_path / "vllm"
    write_checkpoint(folder)
    write_tokenizer(TOKENIZER, folder)
    options = getattr(request, "param", ())
    server = VllmServer(folder, *OPTIONS, "--enable-scale-out", *options)
    try:
        server.start()
        server.wait()
        yield server
    finally:
        server.kill()


@pytest.fixture
def platform(
    transactional_db: None,
    vllm: VllmServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> Iterator[Platform]:
    """A platform and worker machine whose setting names the server."""
    servers = {"vllm": msgspec.to_builtins(vllm.settings)}
    monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", json.dumps(servers))
    monkeypatch.setenv("ROLLDECK_CHECKPOINTS", str(tmp_path / "checkpoints"))
    settings.ROLLDECK_INFERENCE_SERVERS = {"vllm": OfferedServer("vllm", vllm.port)}
    with serving() as url, Platform(url) as platform:
        yield platform


class RecordingTrainer(Trainer):
    """Trainer that keeps the weights of each version."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.published: dict[int, Weights] = {}

    def publish_weights(self, state: Any, *, step: int) -> Any:
        self.published[step] = {name: value.detach().clone() for name, value in state.items()}
        return super().publish_weights(state, step=step)


def stored_rows(run: Run) -> Iterator[dict[str, Any]]:
    """Yield the fields of each stored sequence of a run."""
    for pk in TrajectoryGroup.objects.filter(run=run).values_list("pk", flat=True):
        group = groups.read_msgpack(content_head(ItemKind.GROUPS, pk, 1 << 20))
        versions = msgspec.json.decode(group.json["policy_versions"])
        ends = group.rows["tokens"].lengths.cumsum()[:-1]
        split = {
            name: np.split(group.rows[name].values, ends)
            for name in ("tokens", "masks", "inference_logprobs")
        }
        for place, spans in enumerate(versions):
            row = {name: rows[place].tolist() for name, rows in split.items()}
            yield row | {"policy_versions": spans}


def versions_of(row: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return the version of each trained token."""
    return [(epoch, step) for epoch, step, count in row["policy_versions"] for _ in range(count)]


def weights_that_agree(
    row: Mapping[str, Any], models: Mapping[int, Transformer]
) -> list[tuple[int, set[int]]]:
    """Return, for each trained token, its labelled step and the steps whose weights agree."""
    tokens = row["tokens"]
    expected = {step: logprobs(model, tokens) for step, model in models.items()}
    places = [place for place, mask in enumerate(row["masks"]) if mask >= 0]
    return [
        (
            labelled,
            {
                step
                for step, every in expected.items()
                if abs(every[place - 1, tokens[place]] - row["inference_logprobs"][place]) < 2e-4
            },
        )
        for place, (_, labelled) in zip(places, versions_of(row), strict=True)
    ]


def trained(
    config: dict[str, Any], platform: Platform, tmp_path: Path
) -> tuple[Run, Transformer, Mapping[int, Weights]]:
    """Train a run to its end; return it, its first model, and what was published by step."""
    models = tmp_path / "checkpoints"
    models.mkdir()
    model = write_checkpoint(models / "small")
    save_tokenizer(TOKENIZER, models / "small")
    run = draft(name="words", config=config)
    change_status(run, RunVerb.START)
    cluster = FakeCluster()
    reconcile_run(run, cluster)
    args = Namespace(
        resume=False,
        checkpoints=None,
        models=models,
        checkpoint=None,
        advantages="dr_grpo",
        tis=None,
        learning_rate=0.03,
        device=torch.device("cpu"),
    )
    token = make_token("trainer", run=run)[1]
    with (
        local_fleet(platform, cluster.orders[-1], tmp_path),
        RecordingTrainer(platform.url, "words", token) as trainer,
    ):
        grpo.train(trainer, args)
        assert within(
            120, lambda: FleetWorker.objects.filter(fleet__run=run, active_step=STEPS).exists()
        )
    return run, model, trainer.published


def check_labels(run: Run, by_version: Mapping[int, Transformer]) -> set[int]:
    """Check that stored tokens have the log probabilities of the weights that they name.

    Returns:
        The steps of tokens with which the weights of no other version agree; the worker may pass
        over a version that is followed by another at once.
    """
    steps: set[int] = set()
    for row in stored_rows(run):
        found = weights_that_agree(row, by_version)
        assert found
        assert all(labelled in agreeing for labelled, agreeing in found), found
        # A label proves something only where no other version agrees.
        steps |= {labelled for labelled, agreeing in found if agreeing == {labelled}}
    assert set(by_version) == {0, 1, 2, 3}
    assert Evaluation.objects.filter(run=run, state="done").exists()
    assert not RunEvent.objects.filter(
        run=run, kind__in=["weights_refused", "loop_crashed", "outcome_lost"]
    )
    return steps


@pytest.mark.parametrize("vllm", [(), TRANSFER_OPTIONS], ids=["folder", "HTTP"], indirect=True)
def test_stored_groups_have_the_versions_and_log_probabilities_of_their_weights(
    platform: Platform, vllm: VllmServer, tmp_path: Path
) -> None:
    run, model, published = trained(CONFIG, platform, tmp_path)

    by_version = {step: _with(model, weights) for step, weights in published.items()}
    assert len(check_labels(run, by_version)) >= 2
    assert vllm.is_healthy


@pytest.mark.parametrize("vllm", [ADAPTER_OPTIONS], ids=["adapters"], indirect=True)
def test_stored_groups_have_the_versions_and_log_probabilities_of_their_adapters(
    platform: Platform, vllm: VllmServer, tmp_path: Path
) -> None:
    language = CONFIG["language"]
    adapter = {"rank": 8, "alpha": 16.0}
    config = CONFIG | {"language": language | {"model": language["model"] | {"adapter": adapter}}}

    run, model, published = trained(config, platform, tmp_path)

    base = dict(checkpoints.named_tensors(model))
    by_version = {
        step: _with(model, merged(base, weights, 16.0 / 8)) for step, weights in published.items()
    }
    assert len(check_labels(run, by_version)) >= 2
    assert all("lora_" in name for weights in published.values() for name in weights)
    assert vllm.is_healthy


def _with(model: Transformer, weights: Weights) -> Transformer:
    other = Transformer(model.config).eval()
    checkpoints.assign(other, dict(weights))
    return other

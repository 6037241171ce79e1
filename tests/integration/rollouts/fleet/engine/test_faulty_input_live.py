"""Invalid input is named in the run's event log, and the rest continues.

A worker with its engine and a real web server; each event is a row shown to users.
"""

import json
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from rolldeck.trainer import Trainer
from rollouts.control.models import FleetWorker
from rollouts.curriculum.models import Evaluation, LessonOutcome
from rollouts.curriculum.schemas import LessonSteering
from rollouts.curriculum.services.steering import steer_lesson
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.building import build
from rollouts.fleet.engine.tokenizers import ByteTokenizer, save_tokenizer
from runs.config.rules import run_config
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from runs.lifecycle.rules import RunVerb
from tests.factories import make_token
from tests.fake_cluster import FakeCluster
from tests.integration.rollouts.local_fleets import Platform, local_fleet
from tests.integration.rollouts.report_factories import change_status, draft, reconcile_run
from tests.live_server import serving
from tests.unit.rollouts.fleet.datasets.dataset_files import sums, write_jsonl
from tests.unit.rollouts.fleet.engine.small_models import small_model
from tests.unit.rollouts.fleet.groups import odd_token_environments
from tests.unit.rollouts.fleet.groups.conftest import SHAPES
from tests.unit.rollouts.fleet.rewards import own_rewards
from tests.waiting import within

SECONDS = 180
GOOD = {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}}
ODD: dict[str, tuple[str, str]] = {
    "Raises": ("environment_failed", "the environment raised ZeroDivisionError: no "),
    "Nothing": ("environment_failed", "sample() returned NoneType, expected Sampled"),
    "Silent": ("group_missing", "groups returned, without a reason"),
    "Ragged": ("group_invalid", "3 rollouts, expected 4"),
    "NotANumber": ("rollout_unscored", "has no score"),
    "LongWinded": ("prompt_too_long", "10000 tokens; 1 to 63 fit"),
    "Foreign": ("tokenizer_unusable", "token 128009 is outside the vocabulary"),
}
"""Expected event of each environment."""
PACKAGE = ("dependency_missing", "needs verifiers 0.4 with verifiers.v1")
CHESS = {"chess": {"python": sys.executable, "env": {"taskset": {"id": "chess"}}}}
"""Setting with an interpreter that lacks the package."""
DATA = {
    "Absent": ("dataset_missing", "absent.jsonl does not exist below ROLLDECK_DATASETS"),
    "Raising": ("reward_failed", "raised ZeroDivisionError: no reward"),
    "Hanging": ("reward_timeout", "did not return within 0.5 s"),
    "Infinite": ("reward_invalid", "returned nan, expected a finite number"),
}
"""Expected event of each lesson with a data set."""
DATA_LESSONS = {
    "Absent": {"spec": "dataset:absent.jsonl"},
    **{
        name: {
            "spec": "dataset:sums.jsonl",
            "kwargs": {"rewards": [{"kind": f"module:own_rewards:{reward}", "seconds": 0.5}]},
        }
        for name, reward in (
            ("Raising", "raises"),
            ("Hanging", "hangs"),
            ("Infinite", "not_a_number"),
        )
    },
}


@pytest.fixture
def platform(transactional_db: None) -> Iterator[Platform]:
    with serving() as url, Platform(url) as platform:
        yield platform


@pytest.fixture(autouse=True)
def _odd_environments(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(Path(odd_token_environments.__file__).parent))
    specs = f"{odd_token_environments.SPECS},verifiers:chess"
    monkeypatch.setenv("ROLLDECK_ENVIRONMENTS", specs)
    monkeypatch.setenv("ROLLDECK_VERIFIERS", json.dumps(CHESS))
    settings.ROLLDECK_ENVIRONMENTS = specs.split(",")
    write_jsonl(tmp_path / "data/sums.jsonl", sums(20))
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path / "data"))
    monkeypatch.setenv("ROLLDECK_REWARDS", ",".join(own_rewards.KINDS))
    monkeypatch.setenv("PYTHONPATH", str(Path(own_rewards.__file__).parent))
    settings.ROLLDECK_REWARDS = list(own_rewards.KINDS)


def configured(lessons: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    return {
        "language": {
            "lessons": lessons,
            "model": model,
            "group_size": 4,
            "prompts_per_batch": 4,
            "keeps_zero_variance": True,
            "evaluation": {"examples": 64, "generations": 4, "every_train_steps": 1},
            "strategy_options": {"minimum_sample_probability": 0.5 / len(lessons)},
        },
        "fleet": {"num_workers": 1},
        "buffer": {"max_staleness": 1000, "batch_size": 8},
    }


def began(name: str, config: dict[str, Any]) -> tuple[Run, FakeCluster]:
    run, cluster = draft(name=name, config=config), FakeCluster()
    change_status(run, RunVerb.START)
    reconcile_run(run, cluster)
    return run, cluster


def has_event(run: Run, kind: str, text: str, *, lesson: str = "") -> bool:
    rows = RunEvent.objects.filter(run=run, kind=kind, message__contains=text)
    return (rows.filter(details__lesson=lesson) if lesson else rows).exists()


def unreported(run: Run) -> list[str]:
    """Return the odd lessons without the expected event."""
    expected = {**ODD, **DATA, "Package": PACKAGE}
    return [name for name, event in expected.items() if not has_event(run, *event, lesson=name)]


def kinds(run: Run) -> set[str]:
    return set(RunEvent.objects.filter(run=run).values_list("kind", flat=True))


def weights_of(config: dict[str, Any]) -> dict[str, Any]:
    language = run_config.parse(config).language
    assert language is not None
    return dict(checkpoints.named_tensors(build(language).model))


def test_every_faulty_environment_is_named_and_the_valid_lesson_trained(
    platform: Platform, tmp_path: Path
) -> None:
    lessons = {name: {"spec": f"module:odd_token_environments:{name}"} for name in ODD}
    lessons = {"good": GOOD, "Package": {"spec": "verifiers:chess"}} | DATA_LESSONS | lessons
    config = configured(lessons, SHAPES | {"tokenizer": "bytes"})
    weights = weights_of(config)
    short = {name: part for name, part in weights.items() if "up_proj" not in name}
    run, cluster = began("odd", config)
    token = make_token("trainer", run=run)[1]
    with (
        local_fleet(platform, cluster.orders[-1], tmp_path),
        Trainer(platform.url, "odd", token) as trainer,
    ):
        trainer.register()
        trainer.publish_weights(weights, step=0)
        assert within(SECONDS, lambda: not unreported(run)), unreported(run)
        batch = trainer.next_batch(wait_seconds=SECONDS)
        assert batch is not None
        trainer.ack(batch)
        done = Evaluation.objects.filter(run=run, state="done", lesson="good")
        assert within(SECONDS, done.exists)

        # Weights with missing tensors are rejected by name; the next valid ones are used.
        trainer.publish_weights(short, step=1)
        missing = "do not fit: tensors are missing: model.layers.0.mlp.up_proj.weight"
        assert within(SECONDS, lambda: has_event(run, "weights_refused", missing))
        assert FleetWorker.objects.get().active_step == 0
        trainer.publish_weights(weights, step=2)
        sampled = LessonOutcome.objects.filter(run=run, lesson="good", policy_step=2)
        assert within(SECONDS, sampled.exists)

    assert not {"loop_crashed", "worker_respawned", "worker_failed", "outcome_lost"} & kinds(run)
    errors = dict(
        LessonOutcome.objects.filter(run=run).exclude(error="").values_list("lesson", "error")
    )
    assert "ZeroDivisionError" in errors["Raises"]
    assert "good" not in errors


def stops(run: Run) -> int:
    return RunEvent.objects.filter(run=run, kind="lesson_stopped", details__lesson="bad").count()


def test_a_failing_reward_stops_its_lesson_for_all_workers_until_it_starts_again(
    platform: Platform, tmp_path: Path
) -> None:
    kwargs = {"rewards": [{"kind": "module:own_rewards:raises"}], "on_failure": "stop"}
    lessons = {"good": GOOD, "bad": {"spec": "dataset:sums.jsonl", "kwargs": kwargs}}
    config = configured(lessons, SHAPES | {"tokenizer": "bytes"})
    config["fleet"]["num_workers"] = 2
    run, cluster = began("stopping", config)
    sampled = LessonOutcome.objects.filter(run=run, lesson="good", mode="train", counted=True)
    failed = LessonOutcome.objects.filter(run=run, lesson="bad")
    with (
        local_fleet(platform, cluster.orders[-1], tmp_path),
        Trainer(platform.url, "stopping", make_token("trainer", run=run)[1]) as trainer,
    ):
        trainer.register()
        trainer.publish_weights(weights_of(config), step=0)
        assert within(SECONDS, lambda: stops(run) == 1)
        # Each of two workers has at most two batches in flight.
        before = sampled.count()
        assert within(SECONDS, lambda: sampled.count() >= before + 8)
        at_most = failed.count()
        assert at_most <= 4
        before = sampled.count()
        assert within(SECONDS, lambda: sampled.count() >= before + 8)
        assert failed.count() == at_most

        steer_lesson(
            run_id=run.pk,
            lesson="bad",
            body=LessonSteering(),
            actor="user:alice",
            now=datetime.now(UTC),
        )
        assert within(SECONDS, lambda: stops(run) == 2)

    assert failed.count() > at_most
    assert "outcome_lost" not in kinds(run)


def without_a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors")


def with_a_larger_tokenizer(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
    tensors = load_file(folder / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        if name in tensors:
            tensors[name] = tensors[name][:100].contiguous()
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(
    ("spoil", "kind", "text"),
    [
        (
            without_a_tensor,
            "checkpoint_unreadable",
            "tensors are missing: model.layers.1.mlp.up_proj.weight",
        ),
        (with_a_larger_tokenizer, "tokenizer_unusable", "tokens, the model only 100"),
    ],
)
def test_a_damaged_checkpoint_is_named_and_its_repair_is_enough(
    platform: Platform,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    spoil: Callable[[Path], None],
    kind: str,
    text: str,
) -> None:
    tokenizer = ByteTokenizer()
    model = small_model(vocab_size=tokenizer.vocab_size)
    folder = tmp_path / "checkpoints" / "mine"
    checkpoints.save(model, folder)
    save_tokenizer(tokenizer, folder)
    spoil(folder)
    monkeypatch.setenv("ROLLDECK_CHECKPOINTS", str(folder.parent))
    config = configured({"good": GOOD}, {"checkpoint": "mine", "tokenizer": "checkpoint"})
    run, cluster = began("mended", config)
    token = make_token("trainer", run=run)[1]
    with (
        local_fleet(platform, cluster.orders[-1], tmp_path),
        Trainer(platform.url, "mended", token) as trainer,
    ):
        assert within(SECONDS, lambda: has_event(run, kind, text))
        assert within(SECONDS, lambda: has_event(run, "worker_respawned", text))

        checkpoints.save(model, folder)
        trainer.register()
        trainer.publish_weights(dict(checkpoints.named_tensors(model)), step=0)
        assert trainer.next_batch(wait_seconds=SECONDS) is not None

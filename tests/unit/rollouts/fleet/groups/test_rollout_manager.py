"""A rollout manager samples, evaluates and follows a curriculum without a platform."""

import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rolldeck.groups import read_msgpack
from rolldeck_server import RolloutManager
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable, load, named_tensors
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, TokenizerUnusable, save_tokenizer
from rollouts.fleet.groups.arguments import InvalidArgument
from rollouts.fleet.groups.errors import LessonFailed, SamplingStopped
from rollouts.fleet.groups.rollout_manager import ManagerShutDown
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from rollouts.fleet.process.loops import EventLog
from rollouts.lessons.rules.lessons import InvalidCurriculum
from runs.config.rules.run_config import InvalidRunConfig
from tests.unit.rollouts.fleet.groups.conftest import SHAPES, language
from tests.unit.rollouts.fleet.groups.small_checkpoints import LESSONS, make_checkpoint
from tests.waiting import eventually

MakeManager = Callable[..., RolloutManager]
SMALL = {"group_size": 4, "prompts_per_batch": 3}
EASY = LESSONS["sampled"] | {"success_above": -1.0}
"""A lesson in which every answer succeeds."""
CHAIN = {"first": EASY, "second": LESSONS["reverse"] | {"requires": [{"lesson": "first"}]}}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return make_checkpoint(tmp_path / "small")


@pytest.fixture
def make_manager(checkpoint: Path) -> Iterator[MakeManager]:
    made: list[RolloutManager] = []

    def make(lessons: dict[str, Any] = LESSONS, **changes: Any) -> RolloutManager:
        given = {"lessons": lessons, **SMALL, "evaluation": {"examples": 64}}
        made.append(RolloutManager(given, changes.pop("checkpoint", checkpoint), **changes))
        return made[-1]

    yield make
    for one in made:
        one.shutdown()


def tokens_of(batch: Any) -> list[list[int]]:
    return [list(rollout.tokens) for rollout in batch.rollouts]


def test_equal_seeds_and_calls_have_equal_rollouts(make_manager: MakeManager) -> None:
    first, second, other = make_manager(seed=7), make_manager(seed=7), make_manager(seed=8)
    batches = [first.sample_batch()[0] for _ in range(3)]
    again = [second.sample_batch()[0] for _ in range(3)]

    assert [tokens_of(one) for one in batches] == [tokens_of(one) for one in again]
    assert [one.metadata.lesson for one in batches] == [one.metadata.lesson for one in again]
    assert tokens_of(other.sample_batch("reverse")[0]) != tokens_of(
        make_manager(seed=7).sample_batch("reverse")[0]
    )


def test_a_batch_has_whole_groups_with_a_version_for_every_token(
    make_manager: MakeManager,
) -> None:
    manager = make_manager(version=(2, 5), worker_id="mine")
    batch, figures = manager.sample_batch("reverse", n_examples=2, n_generations=3)

    assert [len(group.rollouts) for group in batch.groups] == [3, 3]
    assert batch.metadata.worker_id == "mine"
    for rollout in batch.rollouts:
        assert set(rollout.versions) == {None, (2, 5)}
        assert [version is not None for version in rollout.versions] == list(rollout.is_own)
    assert figures["tokens"] == batch.tokens
    encoded = [read_msgpack(one) for one in manager.encoded(batch)]
    assert [(one.epoch, one.policy_step, one.sequences) for one in encoded] == [(2, 5, 3)] * 2
    assert encoded[0].rows["tokens"].values.tolist() == [*chain(*tokens_of(batch)[:3])]


def test_training_problems_follow_each_other_and_may_be_repeated(
    make_manager: MakeManager,
) -> None:
    manager = make_manager()
    first, second = (manager.sample_batch("reverse")[0] for _ in range(2))
    again, _ = manager.sample_batch("reverse", first_example=3)

    numbers = [[group.number for group in batch.groups] for batch in (first, second, again)]
    assert numbers == [[0, 1, 2], [3, 4, 5], [3, 4, 5]]
    assert tokens_of(again) == tokens_of(second)
    assert manager.lesson_states()["reverse"].assigned == 6
    other, _ = manager.sample_batch("reverse", first_example=3, seed=1)
    assert [group.example for group in other.groups] == [group.example for group in again.groups]
    assert tokens_of(other) != tokens_of(again)


def test_an_evaluation_graduates_a_lesson_and_unlocks_the_next(make_manager: MakeManager) -> None:
    manager = make_manager(CHAIN)
    before = manager.lesson_states()
    results = manager.evaluate_curriculum(eval_type="micro_eval", n_examples=8)
    unchanged = manager.lesson_states()
    manager.evaluate_lesson("first")
    after = manager.lesson_states()

    assert list(results) == ["first", "second"]
    assert (before["first"].status, before["second"].status) == ("active", "locked")
    assert unchanged == before
    assert (after["first"].status, after["second"].status) == ("graduated", "active")
    assert after["first"].evaluated == 64
    assert [after[name].probability for name in CHAIN] == [0.0, 1.0]
    figures, batch = results["first"]
    assert (figures.problems, figures.success.estimate) == (8, 1.0)
    assert batch.metadata.mode == "eval"
    assert manager.sample_batch()[0].metadata.lesson == "second"


def test_training_batches_change_the_shares_of_their_lesson(make_manager: MakeManager) -> None:
    manager = make_manager({"easy": EASY, "hard": LESSONS["reverse"]})
    batch, figures = manager.sample_batch("easy", n_examples=64)

    assert manager.update_training_stats("easy", batch, figures) == []
    states = manager.lesson_states()
    assert states["easy"].trained == 64 * 4
    assert states["easy"].success > 0.99
    assert states["easy"].probability == pytest.approx(0.05)


def test_a_status_change_is_returned_with_its_reason(make_manager: MakeManager) -> None:
    manager = make_manager(CHAIN)
    batches = [manager.sample_batch("first", n_examples=32)[0] for _ in range(2)]

    assert manager.update_training_stats("first", batches[0]) == []
    [change] = manager.update_training_stats("first", batches[1])
    assert change.startswith("second: active: first stopped improving at 1.00")


def test_new_weights_have_the_next_version_and_other_answers(
    make_manager: MakeManager, tmp_path: Path
) -> None:
    manager = make_manager()
    other = make_checkpoint(tmp_path / "other", seed=1)
    before, _ = manager.sample_batch("reverse", first_example=0)
    assert manager.update_model(other) == manager.version == (1, 1)
    from_folder, _ = manager.sample_batch("reverse", first_example=0)
    weights = {name: value.numpy() for name, value in named_tensors(load(other))}
    assert make_manager().update_model(weights, version=4) == (1, 4)
    assert manager.update_model(weights, version=(2, 0)) == (2, 0)
    from_arrays, _ = manager.sample_batch("reverse", first_example=0)

    assert tokens_of(from_folder) == tokens_of(from_arrays) != tokens_of(before)
    assert from_folder.policy_version == (1, 1)
    assert from_arrays.policy_version == (2, 0)


def wrong_weights(checkpoint: Path) -> dict[str, Any]:
    tensors = dict(named_tensors(load(checkpoint)))
    name = "model.norm.weight"
    return {
        "missing": {key: value for key, value in tensors.items() if key != name},
        "shape": tensors | {name: np.zeros(3, dtype=np.float32)},
        "value": tensors | {name: [1.0]},
        "folder": checkpoint / "nowhere",
        "number": 3,
        "old": tensors,
    }


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("missing", WeightsDoNotFit, "tensors are missing: model.norm.weight"),
        ("shape", WeightsDoNotFit, r"model.norm.weight: shape \(3,\), expected \(32,\)"),
        ("value", InvalidArgument, r"weights\['model.norm.weight'\]: \[1.0\] is invalid"),
        ("folder", CheckpointUnreadable, "nowhere"),
        ("number", InvalidArgument, "weights: 3 is invalid; accepted: tensors by name, or"),
        ("old", InvalidArgument, r"version: \(1, 0\) is invalid; accepted: one later than"),
    ],
)
def test_refused_weights_change_nothing(
    make_manager: MakeManager, checkpoint: Path, kind: str, error: type[Exception], message: str
) -> None:
    manager = make_manager()
    before, _ = manager.sample_batch("reverse", first_example=0)
    version = (1, 0) if kind == "old" else None

    with pytest.raises(error, match=message):
        manager.update_model(wrong_weights(checkpoint)[kind], version=version)

    assert manager.version == (1, 0)
    after, _ = manager.sample_batch("reverse", first_example=0)
    assert tokens_of(after) == tokens_of(before)
    assert after.policy_version == (1, 0)


CALLS: dict[str, Callable[[Any], Any]] = {
    "lesson_id: 'x' is invalid; accepted: one of reverse, sampled": lambda m: m.sample_batch("x"),
    "lesson_id: 7 is invalid": lambda m: m.evaluate_lesson(7),
    "lessons: 'x' is invalid; accepted: one of": lambda m: m.evaluate_curriculum(lessons=["x"]),
    "lessons: 'reverse' is invalid; accepted: a list": lambda m: m.evaluate_curriculum(
        lessons="reverse"
    ),
    "lesson_id: None is invalid; accepted: for mode 'eval'": lambda m: m.sample_batch(mode="eval"),
    "or with first_example": lambda m: m.sample_batch(first_example=1),
    "n_examples: -1 is invalid; accepted: a whole number from 1 to 100,000": (
        lambda m: m.sample_batch(n_examples=-1)
    ),
    "n_examples: 0 is invalid": lambda m: m.evaluate_lesson("reverse", n_examples=0),
    "n_examples: True is invalid": lambda m: m.evaluate_curriculum(n_examples=True),
    "n_examples: 2.0 is invalid": lambda m: m.sample_batch("reverse", n_examples=2.0),
    "n_generations: 0 is invalid": lambda m: m.sample_batch("reverse", n_generations=0),
    "n_generations: '4' is invalid": lambda m: m.evaluate_lesson("reverse", n_generations="4"),
    "mode: 'test' is invalid; accepted: 'train', 'eval'": lambda m: m.sample_batch(mode="test"),
    "eval_type: 'EVAL' is invalid; accepted: 'eval', 'micro_eval'": (
        lambda m: m.evaluate_lesson("reverse", eval_type="EVAL")
    ),
    "eval_type: None is invalid": lambda m: m.evaluate_curriculum(eval_type=None),
    "seed: -1 is invalid; accepted: a whole number from 0": lambda m: m.sample_batch(seed=-1),
    "first_example: -3 is invalid": lambda m: m.sample_batch("reverse", first_example=-3),
    "timeout_seconds: nan is invalid": lambda m: m.wait_until_ready(float("nan")),
    "timeout_seconds: -1 is invalid": lambda m: m.wait_until_ready(-1),
    "version: 'v2' is invalid; accepted: a pair": lambda m: m.update_model({}, version="v2"),
    "version: -1 is invalid": lambda m: m.update_model({}, version=(1, -1)),
    "batch: None is invalid; accepted: a RolloutBatch": lambda m: m.update_training_stats(
        "reverse", None
    ),
    "batch: 'sampled .train.' is invalid; accepted: a training batch of 'reverse'": (
        lambda m: m.update_training_stats(
            "reverse", m.sample_batch("sampled", first_example=0, n_examples=1)[0]
        )
    ),
    "batch: 'reverse .eval.' is invalid": lambda m: m.update_training_stats(
        "reverse", m.evaluate_lesson("reverse", n_examples=1, eval_type="micro_eval")[1]
    ),
}


def test_invalid_arguments_are_named_and_change_nothing(make_manager: MakeManager) -> None:
    manager = make_manager()
    before = manager.lesson_states()
    for message, call in CALLS.items():
        with pytest.raises(InvalidArgument, match=message) as refused:
            call(manager)
        assert message.startswith((refused.value.argument, "or with"))

    assert manager.lesson_states() == before
    assert manager.version == (1, 0)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"lessons": {"a": {"spec": 3}}}, InvalidRunConfig, r"language\.lessons\.a\.spec: "),
        ({"lessons": LESSONS, "lesson": 1}, InvalidRunConfig, "language.lesson: unknown field"),
        ({}, InvalidRunConfig, "language.lessons: required"),
        ([], InvalidRunConfig, "language: Expected `object`, got `array`"),
        ({"lessons": {}}, InvalidCurriculum, "at least one lesson is required"),
        ({"lessons": {"a": CHAIN["second"]}}, InvalidCurriculum, "'first' does not exist"),
        ({"lessons": LESSONS, "strategy": "mine"}, InvalidCurriculum, "not registered"),
        (
            {"lessons": LESSONS, "evaluation": {"examples": 8}},
            InvalidCurriculum,
            "an evaluation of 8 samples cannot show 0.9",
        ),
    ],
)
def test_an_invalid_configuration_is_refused(
    checkpoint: Path, given: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        RolloutManager(given, checkpoint)


def test_a_checkpoint_that_does_not_fit_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    own = {"lessons": LESSONS, "model": {"tokenizer": "checkpoint"}}
    more = {"lessons": {"reverse": {"spec": "task:reverse", "kwargs": {"length": 2}}}}
    less = {"lessons": {"one": LESSONS["sampled"] | {"kwargs": {"length": 1, "letters": 2}}}}
    with pytest.raises(CheckpointUnreadable, match=r"config\.json"):
        RolloutManager({"lessons": LESSONS}, tmp_path / "nowhere")
    with pytest.raises(TokenizerUnusable, match="the alphabet of these lessons has"):
        RolloutManager(less, checkpoint)
    with pytest.raises(TokenizerUnusable, match="tokens, the model only 5"):
        RolloutManager(more, checkpoint)
    with pytest.raises(InvalidArgument, match="checkpoint: 3 is invalid"):
        RolloutManager(own, 3)
    with pytest.raises(InvalidArgument, match="device: 'tpu' is invalid; accepted: 'auto', 'cpu'"):
        RolloutManager(own, checkpoint, device="tpu")
    save_tokenizer(AlphabetTokenizer("abcdefghijklmnop>"), checkpoint)
    with pytest.raises(TokenizerUnusable, match="the tokenizer has 18 tokens, the model only"):
        RolloutManager(own, checkpoint)


def test_without_a_checkpoint_the_weights_derive_from_the_seed() -> None:
    config = language(LESSONS, model=SHAPES)
    with RolloutManager(config, seed=3) as first, RolloutManager(config, seed=3) as second:
        assert tokens_of(first.sample_batch()[0]) == tokens_of(second.sample_batch()[0])


def test_a_failing_environment_affects_only_its_lesson(checkpoint: Path) -> None:
    events = EventLog()
    checkpoint_lessons = {"odd": {"spec": "verifiers:chess"}, **LESSONS}
    own = {"lessons": checkpoint_lessons, "model": {"tokenizer": "checkpoint"}}
    manager = RolloutManager(own, checkpoint, events=events)

    with pytest.raises(LessonFailed, match="not registered"):
        manager.sample_batch("odd", first_example=0)
    assert manager.evaluate_lesson("odd", eval_type="micro_eval") == (None, None)
    assert [event.kind for event in events.pop()] == ["environment_unknown"]
    assert manager.sample_batch("reverse")[0] is not None
    manager.shutdown()


def test_a_server_of_the_caller_generates_and_is_closed(
    make_manager: MakeManager, checkpoint: Path
) -> None:
    model = load(checkpoint)
    server = TorchInferenceServer(model, rows=8, version=(3, 1))
    manager = make_manager(server=server, version=(3, 1))
    batch, _ = manager.sample_batch("reverse", n_examples=2)
    assert manager.update_model(dict(named_tensors(model))) == manager.version == (3, 2)
    after, _ = manager.sample_batch("reverse", n_examples=2)

    assert (batch.policy_version, after.policy_version) == ((3, 1), (3, 2))
    manager.shutdown()
    assert not server.wait_until_ready(timeout_seconds=0, stop=threading.Event())


def test_calls_after_a_shutdown_are_refused(make_manager: MakeManager, checkpoint: Path) -> None:
    manager = make_manager()
    batch, _ = manager.sample_batch("reverse")
    assert manager.wait_until_ready(1)
    with manager:
        pass
    manager.shutdown()

    for call in (
        manager.sample_batch,
        lambda: manager.evaluate_lesson("reverse"),
        manager.evaluate_curriculum,
        lambda: manager.update_training_stats("reverse", batch),
        lambda: manager.update_model(checkpoint),
        lambda: manager.wait_until_ready(1),
    ):
        with pytest.raises(ManagerShutDown, match="was shut down; construct another one"):
            call()


def test_threads_get_different_problems_and_a_shutdown_ends_their_calls(
    make_manager: MakeManager, checkpoint: Path
) -> None:
    server = TorchInferenceServer(load(checkpoint), rows=64, version=(1, 0))
    lessons = LESSONS | {"long": LESSONS["reverse"] | {"group_size": 64}}
    manager = make_manager(lessons, server=server)
    found: list[Any] = []

    def sample() -> None:
        found.extend(manager.sample_batch("reverse")[0] for _ in range(4))

    threads = [threading.Thread(target=sample) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    numbers = sorted(group.number for batch in found for group in batch.groups)
    assert numbers == list(range(3 * 4 * 3))

    stopped: list[Exception] = []

    def sample_long() -> None:
        try:
            manager.sample_batch("long", n_examples=10_000)
        except SamplingStopped as error:
            stopped.append(error)

    long = threading.Thread(target=sample_long)
    before = server.progress.tokens
    long.start()
    eventually(lambda: server.progress.tokens > before)
    manager.shutdown()
    long.join(20)
    assert not long.is_alive()
    assert len(stopped) == 1

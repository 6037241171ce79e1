"""Language fleets sample, learn, sleep and end without a lost group."""

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rolldeck.lessons import RolloutTask
from rollouts.fleet.engine.building import build
from tests.stand_ins.inference_servers import listening
from tests.stand_ins.vllm_server import VllmStandIn
from tests.unit.rollouts.fleet.groups.language_platform import (
    LanguagePlatform,
    language_fleet,
    language_run,
)
from tests.waiting import eventually, stays

REVERSE = {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}}
SORT = {"spec": "task:sort", "kwargs": {"length": 2}}


def odd(name: str) -> dict[str, Any]:
    return {"spec": f"module:odd_token_environments:{name}"}


Running = Callable[..., AbstractContextManager[LanguagePlatform]]


@pytest.fixture
def running(tmp_path: Path) -> Running:
    def run(lessons: dict[str, Any], *, room: int = 10_000, tasks: Any = (), **config: Any) -> Any:
        return language_fleet(language_run(lessons, **config), tmp_path, room=room, tasks=tasks)

    return run


def test_groups_are_sampled_after_publication_and_have_their_version(
    running: Running,
) -> None:
    with running({"reverse": REVERSE, "sort": SORT}, num_workers=2) as platform:
        eventually(lambda: reasons(platform) == ["waiting for the trainer's weights"] * 2, 60.0)
        assert not platform.requests

        platform.publish_weights(0)
        eventually(lambda: len(platform.groups) >= 12, 60.0)
        platform.publish_weights(1)
        eventually(lambda: [w.active_step for w in platform.reports[-1].workers] == [1, 1], 60.0)
        eventually(lambda: any(group.policy_step == 1 for group in platform.groups), 60.0)
        eventually(lambda: any(report.episodes for report in platform.reports), 60.0)
        eventually(lambda: "tokens/s" in platform.reports[-1].workers[0].time_use, 60.0)
        report = platform.reports[-1]

    assert report.state == "running"
    for group in platform.groups:
        assert group.sequences == 4
        assert (group.epoch, group.env_id) == (1, None)
        about = {name: msgspec.json.decode(text) for name, text in group.json.items()}
        assert about["lesson"] in {"reverse", "sort"}
        assert about["worker"].startswith(("w0@1-aaaa-", "w1@1-aaaa-"))
        steps = [step for runs in about["policy_versions"] for _, step, _ in runs]
        assert min(steps) == group.policy_step
        masks, logprobs = group.rows["masks"].values, group.rows["inference_logprobs"].values
        assert ((masks >= 0) == (logprobs < 0)).all()
        own = int((masks >= 0).sum())
        assert own == sum(tokens for runs in about["policy_versions"] for *_, tokens in runs)
    examples = [msgspec.json.decode(group.json["example"]) for group in platform.groups]
    assert len(set(examples)) == len(examples)
    lessons = {window.environment for report in platform.reports for window in report.episodes}
    assert lessons == {"reverse", "sort"}
    keys = [outcome.key for _, outcome in platform.outcomes]
    assert len(set(keys)) == len(keys)


def test_a_fleet_never_starts_more_sequences_than_admitted(
    running: Running,
) -> None:
    with running({"reverse": REVERSE}, num_workers=2, room=30) as platform:
        platform.publish_weights(0)
        # Two workers with groups of four: the remaining room is less than a group each.
        eventually(lambda: platform.sequences >= 24, 60.0)
        stays(lambda: platform.sequences <= 30, 0.5)

        platform.room = 60
        eventually(lambda: platform.sequences >= 54, 60.0)
        stays(lambda: platform.sequences <= 60, 0.5)

    assert platform.sequences <= 60


def test_an_evaluation_needs_a_version_and_no_room(running: Running) -> None:
    with running(
        {"reverse": REVERSE},
        room=0,
        tasks=[
            RolloutTask(
                kind="evaluate",
                lesson="reverse",
                examples=6,
                generations=2,
                seed=5,
                evaluation="e-1",
                fence=3,
            )
        ],
    ) as platform:
        platform.publish_weights(0)
        eventually(lambda: platform.outcomes, 60.0)
        stays(lambda: len(platform.outcomes) == 1 and not platform.groups, 0.5)

    assert not platform.groups
    ((lesson, outcome),) = platform.outcomes
    assert (lesson, outcome.mode, outcome.evaluation, outcome.fence) == (
        "reverse",
        "eval",
        "e-1",
        3,
    )
    assert len(outcome.rewards) == 12
    assert outcome.samples
    windows = [window for report in platform.reports for window in report.episodes]
    assert {window.mode for window in windows} <= {"eval"}


def test_a_pause_a_resume_and_a_drain_are_carried_out(
    running: Running,
) -> None:
    with running({"reverse": REVERSE}) as platform:
        platform.publish_weights(0)
        eventually(lambda: platform.groups, 60.0)

        platform.desired = "paused"
        eventually(lambda: is_at_rest(platform), 60.0)
        paused_at = len(platform.groups)
        stays(lambda: len(platform.groups) == paused_at, 0.5)

        platform.desired = "running"
        eventually(lambda: len(platform.groups) > paused_at, 60.0)
        platform.desired = "draining"
        eventually(lambda: platform.reports[-1].state == "drained", 60.0)
        worker = platform.reports[-1].workers[0]
        assert worker.fragments_sent == worker.fragments_cut == len(platform.groups)

        platform.desired = "stopped"
        eventually(lambda: platform.reports[-1].state == "stopped", 60.0)


def test_a_lesson_that_raises_is_reported_and_the_others_continue(
    running: Running,
) -> None:
    with running(
        {"reverse": REVERSE, "raises": odd("Raises"), "nan": odd("NotANumber")},
        model={"tokenizer": "bytes"},
        strategy_options={"minimum_sample_probability": 0.3},
    ) as platform:
        platform.publish_weights(0)
        eventually(
            lambda: {"environment_failed", "rollout_unscored"} <= set(platform.events()), 90.0
        )
        before = len(platform.groups)
        eventually(lambda: len(platform.groups) > before, 60.0)
        eventually(
            lambda: "rollout_unscored" in platform.reports[-1].workers[0].dropped_steps, 60.0
        )

    assert "ZeroDivisionError" in platform.messages("environment_failed")[0]
    assert "has no score" in platform.messages("rollout_unscored")[0]
    failed = [error_outcome for lesson, error_outcome in platform.outcomes if lesson == "raises"]
    assert all("ZeroDivisionError" in outcome.error for outcome in failed)
    assert "worker_respawned" not in platform.events()


def test_groups_survive_an_outage_of_the_platform_and_are_stored_once(
    running: Running,
) -> None:
    with running({"reverse": REVERSE}) as platform:
        platform.publish_weights(0)
        eventually(lambda: platform.groups, 60.0)
        platform.status = 503
        before = len(platform.groups)
        eventually(lambda: len(platform.refused) >= 6, 60.0)
        platform.status = 0
        eventually(lambda: len(platform.groups) > before + 3, 60.0)
        platform.desired = "draining"
        eventually(lambda: platform.reports[-1].state == "drained", 60.0)
        worker = platform.reports[-1].workers[0]

    assert worker.fragments_cut == len(platform.groups)
    examples = [msgspec.json.decode(group.json["example"]) for group in platform.groups]
    assert len(set(examples)) == len(examples)


def test_a_fleet_stops_at_once_during_a_long_answer(running: Running) -> None:
    with running(
        {"endless": odd("Endless") | {"sampling": {"max_tokens": 20_000}}},
        model={"tokenizer": "bytes", "max_position_embeddings": 4096},
    ) as platform:
        platform.publish_weights(0)
        eventually(lambda: any(slot.state == "stepping" for slot in slots_of(platform)), 60.0)
        began = time.monotonic()
    took = time.monotonic() - began

    # Two seconds for the worker, some time for the manager's loops, and a margin for busy
    # machines; the answer would take minutes.
    assert took < 15


def reasons(platform: LanguagePlatform) -> list[str]:
    return [worker.reason for report in platform.reports[-1:] for worker in report.workers]


def is_at_rest(platform: LanguagePlatform) -> bool:
    report = platform.reports[-1]
    (worker,) = report.workers
    busy = [slot for slot in worker.slots if slot.state == "stepping"]
    return report.state == "paused" and not busy and not worker.to_send


def slots_of(platform: LanguagePlatform) -> list[Any]:
    return [slot for worker in platform.workers() for slot in worker.slots]


def test_a_model_that_no_worker_can_build_fails_the_fleet_permanently(
    running: Running,
) -> None:
    with running({"reverse": REVERSE, "chinese": odd("Chinese")}) as platform:
        eventually(lambda: platform.reports and platform.reports[-1].state == "failed", 60.0)

    assert "tokenizer_unusable" in platform.events()
    assert any(report.is_final for report in platform.reports)


def test_weights_with_missing_tensors_are_refused_and_the_old_ones_stay(
    running: Running,
) -> None:
    with running({"reverse": REVERSE}) as platform:
        platform.publish_weights(0)
        eventually(lambda: platform.groups, 60.0)
        platform.publish(1)
        eventually(lambda: "weights_refused" in platform.events(), 60.0)
        eventually(lambda: "do not fit" in platform.reports[-1].workers[0].reason, 60.0)
        assert platform.reports[-1].workers[0].active_step == 0
        platform.publish_weights(2)
        eventually(lambda: any(group.policy_step == 2 for group in platform.groups), 60.0)


class Gpu(VllmStandIn):
    """Server on a GPU, where models may have tied embeddings."""

    device = "cuda"


def test_the_server_of_a_paused_run_sleeps_until_it_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = language_run({"reverse": REVERSE}, num_workers=2, inference="big")
    assert config.language is not None
    built = build(config.language)
    stand_in = Gpu(tmp_path, built.model, built.tokenizer)
    with listening(stand_in.app()) as server:
        offered = {
            "kind": "vllm",
            "url": server,
            "model": "small",
            "weights_directory": str(tmp_path),
            "sleep": True,
        }
        monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", json.dumps({"big": offered}))
        with language_fleet(config, tmp_path) as platform:
            platform.publish_weights(0)
            eventually(lambda: platform.groups, 60.0)
            assert not stand_in.is_asleep

            platform.desired = "paused"
            eventually(lambda: stand_in.is_asleep, 60.0)
            before = len(platform.groups)
            platform.publish_weights(1)
            eventually(
                lambda: {one.active_step for one in platform.reports[-1].workers} == {1}, 60.0
            )
            eventually(lambda: stand_in.is_asleep, 60.0)

            platform.desired = "running"
            eventually(lambda: any(one.policy_step == 1 for one in platform.groups[before:]), 60.0)
            assert not stand_in.is_asleep
            expected = [(server.removeprefix("http://"), (1, 1))]
            eventually(
                lambda: (
                    [(at.address, at.version) for at in platform.reports[-1].workers[0].replicas]
                    == expected
                ),
                60.0,
            )
    stand_in.close()

    assert not {"inference_failed", "weights_refused", "loop_crashed"} & set(platform.events())

"""The inference server of a paused run sleeps, and wakes when the run is resumed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rollouts.fleet.engine.building import build
from rollouts.fleet.manager.manager import LocalFleet
from rollouts.fleet.process.settings import FleetSettings
from runs.config.rules import run_config
from tests.stand_ins.inference_servers import listening
from tests.stand_ins.vllm_server import VllmStandIn
from tests.unit.rollouts.fleet.groups.conftest import SHAPES
from tests.unit.rollouts.fleet.groups.language_platform import LanguagePlatform
from tests.unit.rollouts.fleet.small_platform import served as served_platform

Eventually = Callable[..., None]
CONFIG = {
    "language": {
        "lessons": {"reverse": {"spec": "task:reverse", "kwargs": {"length": 2}}},
        "model": SHAPES,
        "inference": "big",
        "group_size": 4,
        "prompts_per_batch": 2,
        "keeps_zero_variance": True,
        "evaluation": {"examples": 64},
    },
    "fleet": {"num_workers": 2},
    "buffer": {"max_staleness": 100},
}


class Gpu(VllmStandIn):
    """Server on a GPU, where models may have tied embeddings."""

    device = "cuda"


def test_the_server_of_a_paused_run_sleeps_until_it_is_resumed(
    tmp_path: Path, eventually: Eventually, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed = run_config.parse(CONFIG)
    assert parsed.language is not None
    platform, built = LanguagePlatform(parsed.language), build(parsed.language)
    stand_in = Gpu(tmp_path, built.model, built.tokenizer)
    with listening(stand_in.app()) as server, served_platform(platform) as url:
        offered = {
            "kind": "vllm",
            "url": server,
            "model": "small",
            "weights_directory": str(tmp_path),
            "sleep": True,
        }
        monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", json.dumps({"big": offered}))
        settings = FleetSettings(
            platform_url=url,
            token="t",
            run="r",
            run_config=run_config.to_builtins(parsed),
            incarnation="1-aaaa",
            spool_root=str(tmp_path / "spool"),
            log_root=str(tmp_path / "logs"),
        )
        with LocalFleet(settings):
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

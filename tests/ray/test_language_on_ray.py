"""A language run on a real cluster: groups from separate actors."""

import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "unit" / "rollouts" / "fleet"))

from small_platform import served  # noqa: E402 path set above

from rollouts.fleet.process.settings import FleetSettings  # noqa: E402
from rollouts.fleet.ray_internals import disconnect_from_ray  # noqa: E402
from runs.config.rules import run_config  # noqa: E402
from tests.ray.fleets import eventually  # noqa: E402
from tests.unit.rollouts.fleet.groups.conftest import SHAPES  # noqa: E402
from tests.unit.rollouts.fleet.groups.language_platform import LanguagePlatform  # noqa: E402

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]
LESSONS = {"reverse": {"spec": "task:reverse", "kwargs": {"length": 2, "letters": 3}}}


def test_actors_sample_groups_with_the_weights_of_the_trainer(
    ray_head: Any, tmp_path: Path
) -> None:
    import ray

    from rollouts.fleet.manager.actors import kill, launch

    config = {
        "language": {
            "lessons": LESSONS,
            "model": SHAPES,
            "group_size": 4,
            "prompts_per_batch": 2,
            "keeps_zero_variance": True,
            "evaluation": {"examples": 64},
        },
        "fleet": {"num_workers": 2},
        "buffer": {"max_staleness": 100},
    }
    parsed = run_config.parse(config)
    assert parsed.language is not None
    platform = LanguagePlatform(parsed.language)
    namespace = "test-language"
    ray.init(
        address=ray_head.address,
        namespace=namespace,
        log_to_driver=False,
        configure_logging=False,
        ignore_reinit_error=True,
    )
    try:
        with served(platform) as url:
            settings = FleetSettings(
                platform_url=url,
                token="t",
                run="r",
                run_config=run_config.to_builtins(parsed),
                incarnation="1-ray",
                spool_root=str(tmp_path),
                log_root=str(tmp_path / "logs"),
            )
            launch(address=ray_head.address, namespace=namespace, name="words", settings=settings)
            platform.publish_weights(0)
            eventually(lambda: len({group.json["worker"] for group in platform.groups}) == 2, 180.0)
            platform.publish_weights(1)
            eventually(lambda: any(group.policy_step == 1 for group in platform.groups), 180.0)
            kill(namespace=namespace, name="words")
    finally:
        disconnect_from_ray()

    pids = {worker.pid for worker in platform.reports[-1].workers}
    assert len(pids) == 2
    assert platform.outcomes

"""Checks of a configuration before launch."""

from typing import Any

import msgspec
import pytest

from rollouts.environments import rules as findings
from rollouts.environments.rules import Cluster, DiskRoom
from rollouts.fleet.manager.placement import NodeRoom
from runs.config.rules.run_config import PRESETS, RunConfig, parse

NODE = NodeRoom(total={"CPU": 4.0}, free={"CPU": 1.0})


def fleet(**fields: Any) -> RunConfig:
    return parse({"fleet": fields})


def test_a_train_step_is_described_in_groups_of_each_size() -> None:
    raw = msgspec.to_builtins(PRESETS["curriculum"][1])
    raw["language"]["lessons"]["larger-prices"]["group_size"] = 16

    (finding,) = findings.batches(parse(raw))

    assert (finding.level, finding.field) == ("ok", "buffer.batch_size")
    assert "128 sequences: 16 groups of 8 or 8 groups of 16." in finding.message


def test_a_train_step_of_a_fleet_is_described_in_env_steps() -> None:
    (finding,) = findings.batches(PRESETS["cartpole"][1])

    assert "2,048 env steps: 1 fragments of each of 16 slots" in finding.message


def test_answers_as_long_as_the_context_leave_no_room_for_a_prompt() -> None:
    raw = msgspec.to_builtins(PRESETS["curriculum"][1])
    raw["language"]["lessons"]["larger-prices"]["sampling"]["max_tokens"] = 96

    token_findings = findings.tokens(parse(raw))

    assert [(each.level, each.field) for each in token_findings] == [
        ("error", "language.lessons.larger-prices.sampling.max_tokens"),
        ("info", "language.model.max_position_embeddings"),
    ]
    assert "12,288 tokens per train step" in token_findings[1].message


@pytest.mark.parametrize(
    ("fields", "level", "words"),
    [
        ({"num_cpus_per_worker": 1}, "ok", "1 of 1 workers fit on 1 node"),
        ({"num_cpus_per_worker": 1, "num_workers": 3}, "warning", "1 of 4 such places are free"),
        ({"num_cpus_per_worker": 1, "num_workers": 9}, "warning", "has room for 4"),
        (
            {"num_cpus_per_worker": 1, "num_workers": 9, "placement": "pack"},
            "error",
            "has room for 4",
        ),
        ({"num_gpus_per_worker": 1}, "error", "GPU"),
    ],
)
def test_room_for_workers_is_checked_on_every_node(
    fields: dict[str, Any], level: str, words: str
) -> None:
    (finding,) = findings.room(fleet(**fields), Cluster(nodes=[NODE]))

    assert (finding.level, words in finding.message) == (level, True), finding.message


def test_a_missing_gpu_is_reported_where_gpus_are_requested() -> None:
    (finding,) = findings.room(fleet(num_gpus_per_worker=1), Cluster(nodes=[NODE]))

    assert finding.field == "fleet.num_gpus_per_worker"


def test_a_cluster_that_does_not_answer_is_a_warning() -> None:
    (finding,) = findings.room(fleet(), Cluster(trouble="connection refused"))

    assert (finding.level, "connection refused" in finding.message) == ("warning", True)


@pytest.mark.parametrize(("free", "level"), [(10**12, "ok"), (10**9, "warning")])
def test_a_disk_that_is_too_small_is_reported_before_it_is_full(free: int, level: str) -> None:
    room = DiskRoom(free_bytes=free, kept_free_bytes=10**9, retention_bytes=0)

    (finding,) = findings.disk(fleet(), room, bytes_per_step=24)

    assert finding.level == level
    assert "6.53 kB per fragment" in finding.message


def test_retention_bounds_the_disk_usage_of_a_run() -> None:
    room = DiskRoom(free_bytes=2 * 10**9, kept_free_bytes=10**9, retention_bytes=10**6)

    (finding,) = findings.disk(fleet(), room, bytes_per_step=10**6)

    assert (finding.level, "keeps 1 MB" in finding.message) == ("ok", True), finding.message


def test_a_disk_has_no_finding_when_no_environment_was_measured() -> None:
    room = DiskRoom(free_bytes=1, kept_free_bytes=0, retention_bytes=0)

    assert findings.disk(fleet(), room, bytes_per_step=None) == []

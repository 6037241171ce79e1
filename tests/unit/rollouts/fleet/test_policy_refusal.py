"""A policy that cannot act in its environment is a fact about the run, told once."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from worker_bench import bench

from rollouts.fleet.settings import WorkerSettings

Eventually = Callable[..., None]
MakeSettings = Callable[..., WorkerSettings]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param(
            {"policy": {"kind": "cnn"}},
            "policy.kind: cnn needs images: no uint8 [H, W, C] among",
            id="cnn",
        ),
        pytest.param(
            {"device": "cuda"},
            "fleet.device: cuda was asked for, but torch finds no GPU here",
            id="cuda",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here"),
        ),
    ],
)
def test_a_worker_says_which_field_of_its_policy_cannot_be(
    make_worker_settings: MakeSettings,
    eventually: Eventually,
    changes: dict[str, Any],
    reason: str,
) -> None:
    with bench(make_worker_settings(**changes)) as b:
        eventually(lambda: b.order().report.state == "failed", 60.0)
        report = b.order().report

    assert reason in report.reason
    assert b.events.count("policy_refused") == 1
    assert report.env_steps == 0

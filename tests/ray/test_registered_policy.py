"""A fleet on a real cluster samples with a policy of a package outside the repository."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rolldeck.trainer import Batch
from tests.ray.fleets import connected, eventually, small_fleet
from tests.ray_nodes import OUR_CODE, RayNodes, ray_nodes
from tests.unit.client.batch_factories import make_batch_body

pytestmark = [
    pytest.mark.ray,
    pytest.mark.full("starts Ray clusters; the journey is in test_platform_and_fleet.py"),
]
EXAMPLE = Path(__file__).parents[2] / "examples/own_policy"
NAMED = "module:own_policy.network:LstmPolicy"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, installed into a separate folder."""
    source = tmp_path_factory.mktemp("source") / "own_policy"
    shutil.copytree(EXAMPLE, source)
    target = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"),
            *("--no-build-isolation", "--target", str(target), str(source)),
        ],
        check=True,
    )
    return target


@pytest.fixture(scope="module")
def nodes(package: Path) -> Iterator[RayNodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROLLDECK_POLICIES", NAMED)
        with ray_nodes(code=[*OUR_CODE, package]) as cluster:
            cluster.add("only")
            with connected(cluster.address):
                yield cluster


@pytest.mark.parametrize("kind", [NAMED, "package:lstm"])
def test_fragments_contain_the_outputs_of_the_network(
    nodes: RayNodes, package: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(package)
    from own_policy.network import LstmPolicy
    from own_policy.train import Learner, unroll

    spaces: tuple[Any, Any] = SimpleNamespace(shape=(4,)), SimpleNamespace(choices=2)
    torch.manual_seed(0)
    policy = LstmPolicy(*spaces, units=16)
    with small_fleet(
        nodes.address,
        tmp_path,
        name=kind.partition(":")[0],
        policy={"kind": kind, "kwargs": {"units": 16}},
        weights=policy.state_dict(),
    ) as fleet:
        eventually(lambda: len(fleet.platform.fragments) >= 8)
        fragments = list(fleet.platform.fragments.values())

    arrays = Batch.decode(
        make_batch_body([fragment for fragment in fragments if fragment.steps == 16])
    ).stack()
    start = {name: torch.from_numpy(arrays[f"in_state.{name}"]) for name in ("h", "c")}
    with torch.no_grad():
        logprobs, values, _ = unroll(
            policy, torch.from_numpy(arrays["obs"]), start, torch.from_numpy(arrays["first"])
        )
    taken = torch.from_numpy(arrays["action"]).long()[..., None]
    chosen = logprobs.gather(-1, taken).squeeze(-1)
    assert any(rows.any() for rows in start.values())
    assert values.numpy() == pytest.approx(arrays["value"], abs=1e-5)
    assert chosen.numpy() == pytest.approx(arrays["behavior_logprob"], abs=1e-5)

    metrics = Learner(policy).learn(arrays)
    assert all(np.isfinite(value) for value in metrics.values())
    assert metrics["kl"] > 0

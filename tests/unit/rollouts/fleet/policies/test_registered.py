"""Registered policies act like built-in ones, and faulty ones are refused by name."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from worker_bench import Bench

from rollouts.fleet.policies.factory import RegisteredPolicy, build, make_module, make_policy
from rollouts.fleet.policies.policy_protocol import PolicyDoesNotFit, WeightsDoNotFit
from rollouts.fleet.policies.spaces import Space
from rollouts.fleet.process.settings import WorkerSettings
from runs.config.rules.sections import PolicyConfig
from tests.waiting import eventually

OBS = Space(kind="box", shape=(4,), dtype="float32")
TWO = Space(kind="discrete", shape=(), dtype="int64", choices=2)
BOX = Space(kind="box", shape=(2,), dtype="float32", low=[0.0, 0.0], high=[1.0, 1.0])
PARTS = Space(kind="parts", shape=(), dtype="", parts={"a": OBS, "b": TWO})
FIRST = np.zeros(3, dtype=np.bool_)
ROWS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        *("Plain", "Parts", "Bounded", "Gaussian", "WrongOutputs", "WrongValues", "LosesState"),
        *("OnlyOutputs", "RaisesInStep", "Raises", "no_module", "Missing"),
    )
    kinds = [*(f"module:own_networks:{name}" for name in names), "module:no_such_package:Policy"]
    monkeypatch.setenv("ROLLDECK_POLICIES", ", ".join(kinds))


def config(name: str, **kwargs: Any) -> PolicyConfig:
    return PolicyConfig(kind=f"module:own_networks:{name}", kwargs=kwargs)


def policy(name: str, observation: Space = OBS, action: Space = TWO) -> RegisteredPolicy:
    made = make_policy(config(name), observation, action, seed=1, device="cpu")
    assert isinstance(made, RegisteredPolicy)
    return made


def tensors(module: nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in module.state_dict().items()}


def test_a_registered_policy_acts_with_the_weights_of_the_trainer() -> None:
    module = make_module(config("Plain"), OBS, TWO)
    own = policy("Plain")
    own.load(tensors(module))

    decision = own.act(ROWS, own.initial_state(3), FIRST)

    with torch.no_grad():
        expected = module(torch.from_numpy(ROWS), {}, None)[0].log_softmax(-1).numpy()
    assert decision.logprobs == pytest.approx(expected[range(3), decision.actions], abs=1e-6)
    assert decision.values.tolist() == [0.0, 0.0, 0.0]
    assert decision.state == {}


def test_versions_do_not_share_weights() -> None:
    own = policy("Plain")
    own.load(tensors(make_module(config("Plain"), OBS, TWO)))
    own._random.manual_seed(1)
    before = own.act(ROWS, {}, FIRST)
    own.prepare(tensors(make_module(config("Plain"), OBS, TWO)))
    own._random.manual_seed(1)
    again = own.act(ROWS, {}, FIRST)

    assert again.actions.tolist() == before.actions.tolist()
    assert again.logprobs.tolist() == before.logprobs.tolist()


def test_weights_of_another_network_are_refused() -> None:
    own = make_policy(config("Plain", bias=False), OBS, TWO, seed=1, device="cpu")

    with pytest.raises(WeightsDoNotFit, match=r"layer\.bias is unknown"):
        own.load(tensors(make_module(config("Plain"), OBS, TWO)))


def test_parts_of_an_observation_are_passed_by_name() -> None:
    own = policy("Parts", PARTS)
    own.load(tensors(make_module(config("Parts"), PARTS, TWO)))
    rows = np.zeros(3, PARTS.array_dtype)
    rows["a"], rows["b"] = ROWS, [0, 1, 0]

    assert set(own.act(rows, {}, FIRST).actions.tolist()) <= {0, 1}


def test_the_module_may_define_its_action_distribution() -> None:
    module = build("module:own_networks:Bounded", {}, OBS, BOX)
    own = policy("Bounded", OBS, BOX)
    own.load(tensors(module))

    decision = own.act(ROWS, {}, FIRST)

    with torch.no_grad():
        drawn = module.distribution(module(torch.from_numpy(ROWS), {}, FIRST)[0])
        expected = drawn.log_prob(torch.from_numpy(decision.actions)).sum(1).numpy()
    assert decision.actions.shape == (3, 2)
    assert decision.actions.dtype == np.float32
    assert ((decision.actions > 0) & (decision.actions < 1)).all()
    assert decision.logprobs == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Raises", "module:own_networks:Raises raised ZeroDivisionError: no network"),
        ("no_module", "returned str, expected a torch.nn.Module"),
        ("Missing", "cannot be imported: AttributeError"),
        ("Other", "is not registered on .*: an administrator must add it to ROLLDECK_POLICIES"),
    ],
)
def test_a_policy_that_cannot_be_built_is_refused(name: str, problem: str) -> None:
    with pytest.raises(PolicyDoesNotFit, match=problem) as refused:
        policy(name)

    assert refused.value.field == "policy.kind"


def test_a_package_that_is_not_installed_is_refused() -> None:
    with pytest.raises(PolicyDoesNotFit, match=r"no package on .* has an entry point 'absent'"):
        make_policy(PolicyConfig(kind="package:absent"), OBS, TWO, seed=1)
    with pytest.raises(PolicyDoesNotFit, match="ModuleNotFoundError"):
        make_policy(PolicyConfig(kind="module:no_such_package:Policy"), OBS, TWO, seed=1)


def test_continuous_actions_need_a_deviation() -> None:
    with pytest.raises(PolicyDoesNotFit, match="needs a parameter log_std, or distribution"):
        policy("Gaussian", OBS, BOX)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("WrongOutputs", r"outputs has the shape \[3, 3\], expected \[3, 2\]"),
        ("WrongValues", r"values has the shape \[3, 1\], expected \[3\]"),
        ("LosesState", r"forward\(\) must return the state \['h'\]"),
        ("OnlyOutputs", r"forward\(\) must return outputs, values and state"),
    ],
)
def test_a_malformed_policy_step_is_refused(name: str, problem: str) -> None:
    own = policy(name)
    own.load(tensors(make_module(config(name), OBS, TWO)))

    with pytest.raises(PolicyDoesNotFit, match=problem):
        own.act(ROWS, own.initial_state(3), FIRST)


def test_a_worker_reports_a_malformed_policy_step(
    make_worker_settings: Callable[..., WorkerSettings],
) -> None:
    b = Bench(make_worker_settings(policy={"kind": "module:own_networks:WrongOutputs"}))
    try:
        module = make_module(config("WrongOutputs"), OBS, TWO)
        b.publish_tensors(0, tensors(module))
        b.order(credits=1000)
        eventually(lambda: b.order() and "policy_refused" in b.events)
    finally:
        b.worker.stop()

    [refusal] = [event for event in b.reported if event.kind == "policy_refused"]
    assert refusal.message.startswith("policy.kind: module:own_networks:WrongOutputs: outputs has")

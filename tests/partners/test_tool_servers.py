"""Lessons call the tools of a real server of the `mcp` package."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from rollouts.fleet.datasets.dataset_task import ToolTask
from rollouts.fleet.engine.building import UNTRAINED, Built, Demonstration, build, demonstrate
from rollouts.fleet.groups.errors import LessonFailed
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.tools.server import ToolFailed, ToolServer, ToolsUnusable
from rollouts.tasks.rules.dataset_config import parse
from rollouts.tasks.rules.task import Example
from runs.config.rules.language_config import LanguageConfig
from tests.partners.prompt_packages import PYTHON, prompt_packages
from tests.unit.rollouts.fleet.datasets.dataset_files import write_jsonl
from tests.unit.rollouts.fleet.groups.conftest import Bench, language

__all__ = ["prompt_packages"]
pytestmark = [
    pytest.mark.partner,
    pytest.mark.usefixtures("prompt_packages"),
    pytest.mark.filterwarnings("default"),
]
SCRIPT = str(Path(__file__).with_name("calculator_server.py"))
CALL = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
RESULT = "<tool_response>\n3\n</tool_response>"


@pytest.fixture(autouse=True)
def _servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    described = {
        mode or "calc": {"command": str(PYTHON), "args": [SCRIPT, mode]}
        for mode in ("", "ends", "hangs")
    } | {"broken": {"command": str(PYTHON), "args": ["-c", "raise SystemExit(1)"]}}
    monkeypatch.setenv("ROLLDECK_TOOL_SERVERS", json.dumps(described))
    monkeypatch.setenv("ROLLDECK_DATASETS", str(tmp_path))
    write_jsonl(tmp_path / "sums.jsonl", [{"prompt": "1+2=", "answer": "3"}] * 8)


@pytest.fixture
def server() -> Iterator[ToolServer]:
    made = ToolServer("calc")
    yield made
    made.close()


def test_tools_are_listed_and_called(server: ToolServer) -> None:
    assert [tool.name for tool in server.tools] == ["add", "divide", "end", "hang"]
    assert server.tools[0].description == "Add two integers."
    assert server.call("add", {"a": 1, "b": 2}, seconds=10) == ("3", False)


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        ("divide", {"a": 1, "b": 0}, "division by zero"),
        ("add", {"a": "one"}, "valid integer"),
        ("multiply", {}, "Unknown tool: multiply"),
    ],
)
def test_errors_of_a_tool_are_its_result(
    server: ToolServer, tool: str, arguments: dict[str, Any], text: str
) -> None:
    result, is_error = server.call(tool, arguments, seconds=10)

    assert is_error
    assert text in result


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("end", "tool server calc ended"),
        ("hang", "tool hang of server calc did not return within 1 s"),
    ],
)
def test_a_server_that_ends_or_hangs_is_replaced(server: ToolServer, tool: str, text: str) -> None:
    with pytest.raises(ToolFailed, match=text):
        server.call(tool, {}, seconds=1)

    assert server.call("add", {"a": 3, "b": 4}, seconds=10) == ("7", False)


def test_a_server_that_fails_repeatedly_is_not_called_for_a_while(server: ToolServer) -> None:
    for _ in range(3):
        with pytest.raises(ToolFailed, match="tool server calc ended"):
            server.call("end", {}, seconds=10)

    with pytest.raises(ToolFailed, match="failed in 3 calls in a row; no calls for 5 s"):
        server.call("add", {"a": 1, "b": 2}, seconds=10)
    time.sleep(5)
    assert server.call("add", {"a": 1, "b": 2}, seconds=10) == ("3", False)


def test_a_server_that_does_not_start_is_named() -> None:
    with pytest.raises(ToolsUnusable, match="tool server broken did not start") as failure:
        ToolServer("broken")

    assert failure.value.kind == "environment_failed"


class Demonstrated(ToolTask):
    """A task whose demonstrations call a tool."""

    def demonstrate(self, example: Example) -> tuple[str, ...]:
        return (CALL, example.answer)


def config(server: str, **kwargs: Any) -> LanguageConfig:
    lesson = {
        "spec": "dataset:sums.jsonl",
        "kwargs": {"tools": {"server": server, "seconds": 2}, **kwargs},
        "sampling": {"max_tokens": 80},
    }
    shapes = {"tokenizer": "bytes", "max_position_embeddings": 160, "hidden_size": 64}
    return language({"sums": lesson}, model=shapes)


@pytest.fixture
def sampling(imitator: Built) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(server: str, **kwargs: Any) -> Bench:
        inference = TorchInferenceServer(
            imitator.model, rows=64, version=(1, 100), tokenizer=imitator.tokenizer
        )
        made.append(Bench(config(server, **kwargs), server=inference))
        return made[-1]

    yield make
    for one in made:
        one.worker.shutdown()


_imitators: list[Built] = []


def imitate(built: Built, shown: Demonstration) -> None:
    """Train the model until its greedy answers are those of one demonstration."""
    optimizer = torch.optim.Adam(built.model.train().parameters(), lr=3e-3)
    tokens, labels = torch.tensor([shown.tokens]), torch.tensor([shown.labels])
    for _ in range(1000):
        logits, targets = built.model(tokens[:, :-1])[0], labels[0, 1:]
        loss = torch.nn.functional.cross_entropy(logits, targets, ignore_index=UNTRAINED)
        if loss.item() < 0.01:
            built.model.eval()
            return
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raise AssertionError("the demonstration is not learnt after 1000 updates")


@pytest.fixture
def imitator(server: ToolServer) -> Built:
    """Return a model that calls the tool and repeats its result; trained once."""
    if not _imitators:
        torch.manual_seed(0)
        built = build(config("calc"))
        settings = parse({"tools": {"server": "calc"}})
        assert settings.tools is not None
        task = Demonstrated("sums.jsonl", settings, settings.tools, server)
        imitate(built, demonstrate(task, 0, built.tokenizer, seed=0))
        _imitators.append(built)
    return _imitators[0]


def test_the_policy_reads_the_result_and_answers(sampling: Callable[..., Bench]) -> None:
    at = sampling("calc")

    batch, metrics = at.sample("sums", n_examples=2, n_generations=2, mode="eval")

    assert metrics["env.turns_mean"] == 2
    for rollout in batch.rollouts:
        assert rollout.reward == 1.0
        assert rollout.response == f"{CALL}{RESULT}3"
        read = [t for t, own in zip(rollout.tokens, rollout.is_own, strict=True) if not own]
        assert bytes(read).decode() == f"1+2={RESULT}"


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        ("ends", "tool server ends ended"),
        ("hangs", "tool add of server hangs did not return within 2 s"),
    ],
)
def test_a_server_that_fails_drops_the_groups_or_stops_the_lesson(
    sampling: Callable[..., Bench], mode: str, text: str
) -> None:
    at = sampling(mode)
    began = time.monotonic()
    assert at.sample("sums", n_examples=1, n_generations=1, mode="eval") == (None, None)
    [event] = at.events.pop()
    assert (event.kind, event.level) == ("tool_failed", "warning")
    assert text in event.message
    assert time.monotonic() - began < 30

    stopping = sampling(mode, on_failure="stop")
    with pytest.raises(LessonFailed, match=text) as failure:
        stopping.sample("sums", n_examples=1, n_generations=1, mode="eval")
    assert (failure.value.kind, failure.value.stops) == ("tool_failed", True)

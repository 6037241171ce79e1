"""Reward functions in their processes, with time limits, and a judge on a real server."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from rollouts.fleet.engine.engine import Engine
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.serving import EngineThread
from rollouts.fleet.engine.tokenizers import AlphabetTokenizer, ChatFormat
from rollouts.fleet.rewards.functions import Answered, RewardUnusable
from rollouts.fleet.rewards.pool import RewardPool
from rollouts.tasks.rules.dataset_config import parse
from tests.stand_ins.inference_servers import listening
from tests.unit.rollouts.fleet.engine.small_models import small_model
from tests.unit.rollouts.fleet.rewards.own_rewards import KINDS

SCHEMA = {
    "type": "object",
    "required": ["n"],
    "additionalProperties": False,
    "properties": {"n": {"type": "integer"}},
}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    # Reward processes find modules like their worker.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.setenv("ROLLDECK_REWARDS", ",".join(KINDS))


@contextmanager
def pool(*rewards: dict[str, Any], processes: int = 1) -> Iterator[RewardPool]:
    made = RewardPool(parse({"rewards": [*rewards]}).rewards, processes=processes)
    try:
        yield made
    finally:
        made.close()


def reward_processes() -> int:
    children = psutil.Process().children()
    return sum("rewards.functions" in " ".join(child.cmdline()) for child in children)


def scored(made: RewardPool, *responses: str, answer: str = "", row: Any = None) -> list[Any]:
    answers = [Answered("1+1=", response, answer, row or {}) for response in responses]
    found = made.score(answers, should_stop=lambda: False)
    assert found is not None
    return [
        result if isinstance(result, list) else (result[1].kind, str(result[1])) for result in found
    ]


@pytest.mark.parametrize(
    ("kind", "options", "response", "answer", "reward"),
    [
        ("exact", {}, " 42\n", "42", 1.0),
        ("exact", {}, "The answer is 42", "42", 0.0),
        ("exact", {}, "Yes", "yes", 0.0),
        ("exact", {"ignore_case": True}, "Yes", "yes", 1.0),
        ("exact", {"extract": r"####\s*(.+)"}, "#### 7 so\n#### 42", "42", 1.0),
        ("exact", {"extract": r"\d+"}, "first 7, then 42", "42", 1.0),
        ("exact", {"extract": r"####\s*(.+)"}, "42", "42", 0.0),
        ("regex", {"pattern": r"^<think>.*</think>"}, "<think>x</think> 1", "", 1.0),
        ("regex", {"pattern": r"^<think>.*</think>"}, "1", "", 0.0),
        ("regex", {"pattern": r"<a>(?P<answer>.*)</a>"}, "<a> 42 </a>", "42", 1.0),
        ("regex", {"pattern": r"<a>(?P<answer>.*)</a>"}, "<a>41</a>", "42", 0.0),
        ("json_schema", {"schema": SCHEMA}, '{"n": 3}', "", 1.0),
        ("json_schema", {"schema": SCHEMA}, 'Here:\n```json\n{"n": 3}\n```', "", 1.0),
        ("json_schema", {"schema": SCHEMA}, '{"n": "3"}', "", 0.0),
        ("json_schema", {"schema": SCHEMA}, "{n: 3}", "", 0.0),
        ("json_schema", {"schema": SCHEMA}, "[" * 100_000, "", 0.0),
        ("module:own_rewards:length", {}, "12345", "", 0.5),
        ("module:own_rewards:length", {"most": 5}, "12345", "", 1.0),
    ],
)
def test_a_function_scores_an_answer(
    kind: str, options: dict[str, Any], response: str, answer: str, reward: float
) -> None:
    with pool({"kind": kind, "options": options}) as made:
        assert scored(made, response, answer=answer) == [[reward]]


def test_an_own_function_reads_the_row() -> None:
    with pool({"kind": "module:own_rewards:level"}) as made:
        assert scored(made, "x", row={"level": 0.25, "other": None}) == [[0.25]]


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        ("not_a_number", "reward_invalid", "returned nan, expected a finite number"),
        ("word", "reward_invalid", "returned str, expected a number"),
        ("raises", "reward_failed", "raised ZeroDivisionError: no reward (own_rewards.py:"),
        ("hangs", "reward_timeout", "did not return within 0.3 s"),
        ("ends", "reward_failed", "ended its process: exit code 7"),
    ],
)
def test_a_failed_function_has_a_reason_and_the_next_answer_a_reward(
    name: str, kind: str, text: str
) -> None:
    faulty = {"kind": f"module:own_rewards:{name}", "seconds": 0.3}
    with pool(faulty) as made:
        [(found, message)] = scored(made, "1")
        assert found == kind
        assert text in message
        [(again, _)] = scored(made, "1")
        assert again == kind
    with pool({"kind": "exact"}) as made:
        assert scored(made, "1", answer="1") == [[1.0]]


def test_a_hanging_call_fails_alone_and_its_process_ends(tmp_path: Path) -> None:
    options = {"marker": str(tmp_path / "called")}
    own = {"kind": "module:own_rewards:hangs_once", "seconds": 0.5, "options": options}
    with pool(own, {"kind": "exact"}) as made:
        first, second = scored(made, "1", "2", answer="2")
        running = reward_processes()

    assert first[0] == "reward_timeout"
    assert second == [1.0, 1.0]
    assert running == 1


def test_a_function_that_always_hangs_fails_the_rest_of_the_batch_at_once() -> None:
    with pool({"kind": "module:own_rewards:hangs", "seconds": 0.3}) as made:
        found = scored(made, *["1"] * 50)

    assert {kind for kind, _ in found} == {"reward_timeout"}
    texts = [text for _, text in found]
    assert texts[:3] == ["did not return within 0.3 s"] * 3
    assert set(texts[3:]) == {
        "exceeded 0.3 s for 3 answers of the batch; the others are not scored"
    }


def test_a_regular_expression_that_backtracks_forever_is_ended() -> None:
    reward = {"kind": "regex", "options": {"pattern": r"^(a+)+$"}, "seconds": 0.5}
    with pool(reward) as made:
        began = time.monotonic()
        [(kind, _), right] = scored(made, "a" * 40 + "b", "aaa")
        seconds = time.monotonic() - began

    assert (kind, right) == ("reward_timeout", [1.0])
    assert seconds < 20


def test_functions_do_not_read_the_credentials_of_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", "{}")
    with pool({"kind": "module:own_rewards:secret"}) as made:
        assert scored(made, "x") == [[0.0]]


def test_several_processes_score_at_once() -> None:
    answers = [Answered("", "x", "", {})] * 4
    with pool({"kind": "module:own_rewards:hangs", "seconds": 2}, processes=4) as made:
        began = time.monotonic()
        found = made.score(answers, should_stop=lambda: False)
        seconds = time.monotonic() - began

    assert found is not None
    assert seconds < 7  # one after the other: 8 s


def test_scoring_stops_with_its_worker() -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pool({"kind": "module:own_rewards:hangs", "seconds": 60}) as made:
        began = time.monotonic()
        assert made.score([Answered("", "", "", {})] * 3, should_stop=stop.is_set) is None
        made.close()
        assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    ("reward", "kind", "text"),
    [
        ({"kind": "module:lab:absent"}, "environment_unknown", "ROLLDECK_REWARDS"),
        ({"kind": "module:own_rewards:other"}, "environment_unknown", "is not registered"),
        ({"kind": "package:absent"}, "environment_unknown", "no package on"),
        (
            {"kind": "json_schema", "options": {"schema": {"type": 3}}},
            "environment_kwargs",
            "rewards[0].options: SchemaError",
        ),
        ({"kind": "math"}, "dependency_missing", "math needs math_verify: pip install"),
        (
            {"kind": "judge", "options": {"server": "big"}},
            "environment_unknown",
            "rewards[0].options.server: 'big' is not in this machine's ROLLDECK_INFERENCE_SERVERS",
        ),
    ],
)
def test_an_unusable_function_is_named_before_the_first_answer(
    reward: dict[str, Any], kind: str, text: str
) -> None:
    with pytest.raises(RewardUnusable) as failure, pool(reward):
        pass

    assert failure.value.kind == kind
    assert text in str(failure.value)
    assert reward_processes() == 0


@pytest.fixture(scope="module")
def judge_url() -> Iterator[str]:
    """Serve a model that writes digits only."""
    tokenizer = AlphabetTokenizer("0123456789", ChatFormat(user="{}"))
    model = small_model(vocab_size=tokenizer.vocab_size)
    thread = EngineThread(Engine(model, rows=8, tokenizer=tokenizer), context=96)
    api = OpenAiApi(thread, tokenizer=tokenizer, model="digits", context=96)
    with listening(api.app) as url:
        yield url
    thread.close()


def servers(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    described = {"big": {"kind": "vllm", "url": url, "model": "digits"}}
    monkeypatch.setenv("ROLLDECK_INFERENCE_SERVERS", msgspec.json.encode(described).decode())


def judge(**options: Any) -> dict[str, Any]:
    return {"kind": "judge", "options": {"server": "big", "prompt": "{answer}", **options}}


def test_a_judge_rates_each_answer(monkeypatch: pytest.MonkeyPatch, judge_url: str) -> None:
    servers(monkeypatch, judge_url)
    with pool(judge(highest=1e6), {"kind": "exact"}) as made:
        first = scored(made, "7", "8", answer="7")
        again = scored(made, "7", "8", answer="7")

    assert first == again
    assert [exact for _, exact in first] == [1.0, 0.0]
    assert all(0 <= rating <= 1 for rating, _ in first)


def test_a_judge_that_refuses_a_request_is_a_failed_reward(
    monkeypatch: pytest.MonkeyPatch, judge_url: str
) -> None:
    servers(monkeypatch, judge_url)
    with pool(judge()) as made:
        [(kind, text)] = scored(made, "7", answer="letters")

    assert kind == "reward_failed"
    assert "HTTP 400" in text


def test_an_unreachable_judge_fails_after_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    servers(monkeypatch, "http://127.0.0.1:9")
    with pool({**judge(), "seconds": 1}) as made:
        began = time.monotonic()
        [(kind, text)] = scored(made, "7", answer="7")
        seconds = time.monotonic() - began

    assert kind == "reward_timeout"
    assert "did not answer within 1 s (ConnectError" in text
    assert seconds < 10

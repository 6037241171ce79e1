"""Capture agent programs that only know an OpenAI base URL.

OpenAI's own client talks to our proxy, the proxy to our inference server and to the platform, each
over real sockets; the trainer's batch shows the captured data.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from buffer.capture.models import CaptureSession
from buffer.capture.services import assembled
from rollouts.fleet.engine.weights import BOOTSTRAP
from runs.lifecycle.models import Run
from tests import processes
from tests.contract.capture_setup import TOKENIZER, Stand, group, small_engine, stand_with, trained
from tests.factories import make_token
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

HELLO: list[Any] = [{"role": "user", "content": "hello"}]
KEY = {"Authorization": "Bearer secret"}


@pytest.fixture
def stand() -> Iterator[Stand]:
    with small_engine() as upstream, stand_with(upstream) as made:
        yield made


def spoken(stand: Stand, session: str, seed: int) -> Any:
    """Generate five tokens; an end token has no text, so a text-based capture would lose it."""
    return stand.agent(session).chat.completions.create(
        model="policy", messages=HELLO, max_tokens=5, seed=seed, extra_body={"ignore_eos": True}
    )


def test_two_turns_of_an_agent_are_one_sequence_with_its_own_tokens_trained(stand: Stand) -> None:
    session, completion = next(
        (name, completion)
        for seed in range(100)
        if len((completion := spoken(stand, name := f"s{seed}", seed)).choices[0].message.content)
        == 5
    )
    agent = stand.agent(session)
    answer = {"role": "assistant", "content": completion.choices[0].message.content}
    more = [*HELLO, answer, {"role": "user", "content": "go on"}]
    agent.chat.completions.create(model="policy", messages=more, max_tokens=4, seed=2)

    receipt = stand.score(**{session: 1.0})

    row = group()
    assert (receipt.sequences, receipt.gaps) == (1, {})
    assert TOKENIZER.decode(trained(row, 0)[:5]) == completion.choices[0].message.content
    assert receipt.tokens == len(trained(row, 0)) > 5
    for masks, logprobs in zip(row["masks"], row["inference_logprobs"], strict=True):
        for mask, logprob in zip(masks, logprobs, strict=True):
            assert (logprob <= 0) if mask >= 0 else (logprob == 1.0)
    assert (row["epoch"], row["policy_step"]) == (0, 0)


def test_answers_of_weights_that_no_trainer_published_have_no_version() -> None:
    with small_engine(version=BOOTSTRAP) as upstream, stand_with(upstream) as stand:
        completion = spoken(stand, "one", seed=1)
        receipt = stand.score(one=1.0)

    row = group()
    assert (receipt.sequences, receipt.gaps) == (1, {})
    assert trained(row, 0) == completion.choices[0].token_ids
    assert "policy_step" not in row
    assert "policy_versions" not in row


def test_a_stream_is_captured_before_it_ends_for_the_agent(stand: Stand) -> None:
    stream = stand.agent("two").chat.completions.create(
        model="policy", messages=HELLO, max_tokens=6, stream=True, seed=3
    )
    text = "".join(piece.choices[0].delta.content or "" for piece in stream if piece.choices)

    assert CaptureSession.objects.get(name="two").calls == 1
    stand.score(two=0.5)
    assert TOKENIZER.decode([t for t in trained(group(), 0) if t != TOKENIZER.end]) == text


def test_a_completion_with_several_choices_is_several_sequences(stand: Stand) -> None:
    stand.agent("three").completions.create(model="policy", prompt="abc", max_tokens=3, n=3, seed=4)

    assert stand.score(three=0.0).sequences == 3


def test_an_agent_that_hangs_up_leaves_a_gap(stand: Stand) -> None:
    stream = stand.agent("four").chat.completions.create(
        model="policy",
        messages=HELLO,
        max_tokens=200,
        stream=True,
        extra_body={"ignore_eos": True},
    )
    next(iter(stream))
    stream.close()

    eventually(lambda: CaptureSession.objects.filter(name="four").exists(), 60)
    assert "disconnected" in assembled(CaptureSession.objects.get()).gaps[0]


def test_an_answer_that_the_platform_refuses_does_not_reach_the_agent(stand: Stand) -> None:
    Run.objects.filter(pk=stand.run.pk).update(status="completed")

    with pytest.raises(openai.ConflictError, match="run_not_accepting"):
        stand.agent("five").completions.create(model="policy", prompt="abc", max_tokens=3)

    assert not CaptureSession.objects.exists()


def test_refusals_have_the_format_of_openai(stand: Stand) -> None:
    with pytest.raises(openai.AuthenticationError):
        stand.agent("six", key="wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        stand.agent("six").completions.create(model="other", prompt="abc")
    post, get = (
        f"{stand.proxy}/capture/six/v1/completions",
        f"{stand.proxy}/capture/a%20b/v1/models",
    )
    bad = httpx.post(post, content=b"{", headers=KEY, timeout=60)
    several = httpx.post(post, json={"prompt": ["a", "b"]}, headers=KEY, timeout=60)
    odd = httpx.get(get, headers=KEY, timeout=60)
    lost = httpx.get(f"{stand.proxy}/v2", headers=KEY, timeout=60)

    assert [one.status_code for one in (bad, several, odd, lost)] == [400, 400, 404, 404]
    assert "not valid JSON" in bad.json()["error"]["message"]
    assert several.json()["error"]["param"] == "prompt"
    assert "GET /v2: Not Found" in lost.json()["error"]["message"]
    assert [model.id for model in stand.agent("six").models.list()] == ["policy"]
    assert not CaptureSession.objects.exists()


def test_the_session_is_in_the_path_or_in_a_header(stand: Stand) -> None:
    prompt: dict[str, Any] = {"model": "policy", "prompt": "abc", "max_tokens": 2}
    bases = {
        "in-path": (f"{stand.proxy}/capture/in-path/v1", {}),
        "in-old-path": (f"{stand.proxy}/sessions/in-old-path/v1", {}),
        "in-header": (f"{stand.proxy}/v1", {"X-Rolldeck-Session": "in-header"}),
    }

    for base, headers in bases.values():
        with openai.OpenAI(base_url=base, api_key="secret", default_headers=headers) as agent:
            agent.completions.create(**prompt)

    assert {*CaptureSession.objects.values_list("name", flat=True)} == {*bases}
    both = {"X-Rolldeck-Session": "other"} | KEY
    one = httpx.post(bases["in-path"][0] + "/completions", json=prompt, headers=both, timeout=60)
    none = httpx.post(f"{stand.proxy}/v1/completions", json=prompt, headers=KEY, timeout=60)
    assert (one.status_code, none.status_code) == (400, 400)
    assert "'in-path', X-Rolldeck-Session names 'other'" in one.json()["error"]["message"]
    assert "send X-Rolldeck-Session" in none.json()["error"]["message"]


def proxy_command(*arguments: str, stand: Stand, token: str) -> subprocess.Popen[str]:
    code = "import sys; from rolldeck.cli import main; sys.exit(main(['proxy', *sys.argv[1:]]))"
    return processes.start(
        [sys.executable, "-c", code, "--url", stand.platform, "--retry-for", "0", *arguments],
        env=os.environ | {"ROLLDECK_TOKEN": token, "PYTHONPATH": ".:platform:client"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_prints_its_url_and_ends_on_a_signal(stand: Stand) -> None:
    token = make_token("env", run=stand.run)[1]
    upstream = ("--upstream", "http://127.0.0.1:9/v1", "--port", "0")

    wrong = proxy_command("--run", "nobody", *upstream, stand=stand, token=token)
    right = proxy_command("--run", "agents", *upstream, stand=stand, token=token)
    assert right.stdout is not None
    output = right.stdout.readline()
    right.terminate()

    assert wrong.wait(60) == 1
    assert "rolldeck: " in wrong.communicate()[1]
    assert "OPENAI_BASE_URL=http://127.0.0.1:" in output
    assert right.wait(60) in {0, -signal.SIGTERM}
    right.communicate()

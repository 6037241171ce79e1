"""Official clients and a task of Inspect through the capturing proxy, up to a training step."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

from buffer.capture.models import CaptureSession
from buffer.capture.services import assembled
from rolldeck.batches import Batch
from rolldeck.trainer import Trainer
from rollouts.fleet.engine.tokenizers import load_tokenizer
from rollouts.fleet.engine.transformer import Transformer
from runs.lifecycle.models import Run
from tests.contract.capture_setup import (
    KEY,
    MODEL,
    Stand,
    on_a_port,
    small_engine,
    stand_with,
)
from tests.factories import make_token
from tests.partners.chat_model import VLLM_OPTIONS, write_model
from tests.partners.vllm_server import VllmServer
from tests.stand_ins.scripted_chat import ScriptedChat, text_answer, tool_answer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.partner]

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".partners" / "agents" / "bin" / "python"
INSPECT_TOKENS = 12
"""Maximum number of tokens of an answer in the task of Inspect."""
APIS = ("chat", "responses", "messages")
CALLED = tool_answer(("add", '{"x": 1}'), text="let me add")


Serve = Callable[[Path, Transformer], AbstractContextManager[str]]
"""Server of the model in a folder, which yields its base URL."""


@contextmanager
def engine(folder: Path, model: Transformer) -> Iterator[str]:
    with small_engine(load_tokenizer(folder), model) as url:
        yield url


@contextmanager
def tool_parser(folder: Path, model: Transformer) -> Iterator[str]:
    with on_a_port(ScriptedChat(CALLED, text_answer("2")).app) as url:
        yield f"{url}/v1"


SERVERS: dict[str, Serve] = {"engine": engine, "scripted": tool_parser}


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of a real vLLM with the model, which is the same in every folder."""
    folder = tmp_path_factory.mktemp("vllm")
    write_model(folder)
    server = VllmServer(folder, *VLLM_OPTIONS, name=MODEL)
    try:
        server.start()
        server.wait()
        yield f"{server.url}/v1"
    finally:
        server.kill()


@pytest.fixture
def serve(request: pytest.FixtureRequest, server: str) -> Serve:
    if server != "vllm":
        return SERVERS[server]
    url = request.getfixturevalue("vllm")
    return lambda folder, model: nullcontext(url)  # noqa: ARG005 it serves an equal model


@pytest.fixture
def scripted() -> ScriptedChat:
    return ScriptedChat(CALLED, text_answer("2"))


@contextmanager
def in_front_of(scripted: ScriptedChat) -> Iterator[Stand]:
    with on_a_port(scripted.app) as url, stand_with(f"{url}/v1") as stand:
        yield stand


def run_program(stand: Stand, session: str, api: str, **settings: Any) -> dict[str, Any]:
    """Return the result of an agent program, which runs in its own environment."""
    base = f"{stand.proxy}/capture/{session}"
    defaults = {"model": MODEL, "stream": False, "tools": True, "extra": {}}
    passed = {"api": api, "base": base, "key": KEY} | defaults | settings
    return output_of("tests/partners/agent_program.py", json.dumps(passed))


def output_of(*command: str, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [PYTHON, *command],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("server", ["scripted", "vllm"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("api", APIS)
def test_each_token_of_an_agent_with_a_tool_is_trained_on(
    tmp_path: Path, serve: Serve, api: str, stream: bool
) -> None:
    with serve(tmp_path, write_model(tmp_path)) as url, stand_with(url) as stand:
        result = run_program(stand, "one", api, stream=stream, extra={"seed": 5})
        made = assembled(CaptureSession.objects.get(name="one"))

    ((name, arguments),) = result["calls"]
    assert (name, arguments["x"] in {1, 2}) == ("add", True)
    assert made.gaps == []
    trained = sum(mask >= 0 for sequence in made.sequences for mask in sequence.masks)
    assert trained == result["output_tokens"]
    assert {place for sequence in made.sequences for place in sequence.answers} == {(0, 0), (1, 0)}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("api", "error"),
    [("chat", "APIError"), ("responses", "RuntimeError"), ("messages", "APIStatusError")],
)
def test_an_error_of_the_server_is_an_exception_of_the_client(
    scripted: ScriptedChat, api: str, error: str, stream: bool
) -> None:
    def without_the_last_logprob(response: dict[str, Any]) -> dict[str, Any]:
        (choice,) = response["choices"]
        if choice["finish_reason"]:
            choice["logprobs"] = {"content": []}
        return response

    scripted.change = without_the_last_logprob

    with in_front_of(scripted) as stand:
        result = run_program(stand, "one", api, stream=stream)

    assert result["error"] == (error if stream else "InternalServerError")
    assert "logprobs for" in result["message"]
    sequences = [assembled(one).sequences for one in CaptureSession.objects.all()]
    assert sequences == ([[]] if stream else [])


@pytest.mark.parametrize("flags", [[], ["stream"], ["responses"]])
def test_samples_of_an_inspect_task_are_sessions(tmp_path: Path, flags: list[str]) -> None:
    scripted = ScriptedChat(CALLED)
    scripted.answer_to = lambda messages: (
        text_answer("the answer is 2") if messages[-1]["role"] == "tool" else CALLED
    )

    with in_front_of(scripted) as stand:
        result = run_inspect(stand, tmp_path, "tools", *flags)
        receipt = stand.score(**result["scores"])

    assert result["scores"] == {
        "sample-1-1": 1.0,
        "sample-1-2": 1.0,
        "sample-2-1": 0.0,
        "sample-2-2": 0.0,
    }
    assert (receipt.sequences, receipt.gaps) == (4, {})


def run_inspect(stand: Stand, folder: Path, *flags: str) -> dict[str, Any]:
    return output_of(
        "tests/partners/inspect_task.py",
        f"openai-api/rolldeck/{MODEL}",
        *flags,
        ROLLDECK_BASE_URL=f"{stand.proxy}/v1",
        ROLLDECK_API_KEY=KEY,
        INSPECT_LOG_DIR=str(folder),
    )


@pytest.mark.parametrize("server", ["engine", "vllm"])
def test_a_trainer_trains_on_the_calls_of_all_clients(tmp_path: Path, serve: Serve) -> None:
    """The captured log probabilities are those of the policy, so its gradient step is on-policy."""
    folder = tmp_path / "model"
    folder.mkdir()
    model = write_model(folder)
    with serve(folder, model) as url, stand_with(url) as stand:
        written = 0
        for seed, api in enumerate(APIS):
            settings = {"tools": False, "stream": bool(seed % 2), "extra": {"seed": seed}}
            result = run_program(stand, api, api, **settings)
            assert "error" not in result, result
            written += result["output_tokens"]
        scores = {api: float(api == "chat") for api in APIS}
        scores |= run_inspect(stand, tmp_path)["scores"]
        receipt = stand.score(**scores)
        Run.objects.filter(pk=stand.run.pk).update(batch_size=len(scores))
        token = make_token("trainer", run=stand.run)[1]
        with Trainer(stand.platform, run=stand.run.name, token=token) as trainer:
            trainer.register()
            batch = trainer.next_batch(60)
            assert batch is not None
            losses = train(model, batch, steps=3)
            trainer.ack(batch)

    assert receipt.gaps == {}
    assert receipt.sequences == len(scores) == 7
    assert written < receipt.tokens <= written + 4 * INSPECT_TOKENS
    assert losses[-1] < losses[0]


def train(model: Transformer, batch: Batch, *, steps: int) -> list[float]:
    """Return the losses of policy gradient steps, after a check of the log probabilities."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rows = [
        row
        for group in batch.groups
        for row in zip(
            *(group[name] for name in ("tokens", "masks", "inference_logprobs", "scores")),
            strict=True,
        )
    ]
    mean = sum(score for *_, score in rows) / len(rows)
    losses = []
    for step in range(steps):
        total = torch.zeros(())
        for row_tokens, row_masks, row_logprobs, score in rows:
            tokens, trained = torch.tensor(row_tokens), torch.tensor(row_masks)[1:] >= 0
            logits = model(tokens[None, :-1])[0]
            chosen = torch.log_softmax(logits, -1).gather(1, tokens[1:, None])[:, 0][trained]
            if step == 0:
                sampled = torch.tensor(row_logprobs)[1:][trained]
                torch.testing.assert_close(chosen, sampled, atol=1e-4, rtol=1e-3)
            total = total - (score - mean) * chosen.sum()
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        losses.append(float(total.detach()))
    return losses


def test_vllm_counts_the_tokens_of_a_message_with_tools(vllm: str) -> None:
    tools = [{"name": "add", "input_schema": {"type": "object"}, "description": "Add"}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "tools": tools}
    with stand_with(vllm) as stand:

        def post(path: str, **fields: Any) -> dict[str, Any]:
            response = httpx.post(
                f"{stand.proxy}/capture/counting/v1/{path}",
                json=body | fields,
                headers={"x-api-key": KEY, "anthropic-version": "2023-06-01"},
                timeout=60,
            )
            found: dict[str, Any] = response.raise_for_status().json()
            return found

        counted = post("messages/count_tokens")
        answered = post("messages", max_tokens=4)

    assert counted == {"input_tokens": answered["usage"]["input_tokens"]}


def test_retokenized_answers_of_vllm_stay_one_sequence(vllm: str) -> None:
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    pairs = {"structured_outputs": {"regex": "[a-h]{12}"}, "seed": 3}
    with stand_with(vllm) as stand:
        agent = stand.agent("drift")

        def answer() -> Any:
            completion = agent.chat.completions.create(
                model=MODEL, messages=messages, max_tokens=40, extra_body=pairs
            )
            return completion.choices[0]

        one = answer()
        messages += [
            {"role": "assistant", "content": one.message.content},
            {"role": "user", "content": "more"},
        ]
        two = answer()
        made = assembled(CaptureSession.objects.get(name="drift"))

    assert (made.repairs, len(made.sequences)) == (1, 1)
    trained = [token for token in made.sequences[0].masks if token >= 0]
    assert trained == [*one.token_ids, *two.token_ids]


@pytest.mark.parametrize(("changed", "sequences"), [(False, 1), (True, 2)])
def test_tool_calls_that_vllm_renders_again_stay_one_sequence(
    vllm: str, changed: bool, sequences: int
) -> None:
    """The policy writes the arguments without spaces, the template with them."""
    call = r'<tool_call>\n\{"name": "add", "arguments": \{"y":"[a-h]{6}","x":[12]\}\}\n</tool_call>'
    tools: list[Any] = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    messages: list[Any] = [{"role": "user", "content": "hi"}]
    sampled: list[int] = []
    with stand_with(vllm) as stand:
        agent = stand.agent("respelled")
        for seed in range(3):
            completion = agent.chat.completions.create(
                model=MODEL,
                messages=messages,
                tools=tools,
                max_tokens=200,
                extra_body={"structured_outputs": {"regex": call}, "seed": seed},
            )
            choice: Any = completion.choices[0]
            answer = choice.message.model_dump(include={"role", "content", "tool_calls"})
            (made,) = answer["tool_calls"]
            if changed and not seed:
                made["function"]["arguments"] = '{"y": "a", "x": 1}'
            result = {"role": "tool", "tool_call_id": made["id"], "content": "2"}
            messages += [answer, result]
            sampled += choice.token_ids
        assembly = assembled(CaptureSession.objects.get(name="respelled"))

    assert (len(assembly.sequences), assembly.repairs) == (sequences, 3 - sequences)
    trained = [mask for sequence in assembly.sequences for mask in sequence.masks if mask >= 0]
    assert trained == sampled

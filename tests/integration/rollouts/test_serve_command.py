"""`rolldeck serve` as a process: it answers, follows a run, says what is wrong, and ends."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from pytest_django.live_server_helper import LiveServer
from safetensors.torch import save, save_file

from rolldeck.http import Connection
from rolldeck.trainer import Trainer
from rollouts.fleet.language import checkpoints
from rollouts.fleet.language.tokenizers import CharTokenizer, save_tokenizer
from rollouts.fleet.language.transformer import Transformer
from tests.factories import make_run, make_token
from tests.unit.rollouts.fleet.language.small_models import logprobs, small_model

ROOT = Path(__file__).resolve().parents[3]
TOKENIZER = CharTokenizer("abcdefghijklmnopqrstuvwxyz 0123456789:\n")
COMMAND = [sys.executable, "-m", "rolldeck.cli", "serve", "--port", "0", "--threads", "1"]
START_SECONDS = 120


def model(seed: int) -> Transformer:
    return small_model(seed=seed, vocab_size=TOKENIZER.vocab_size, max_position_embeddings=256)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "tiny"
    checkpoints.save(model(0), folder)
    save_tokenizer(TOKENIZER, folder)
    return folder


class Server:
    """A running `rolldeck serve`."""

    def __init__(self, process: "subprocess.Popen[str]", url: str, log: Path) -> None:
        self.process, self.url, self.log = process, url, log

    def ask(self, **fields: Any) -> dict[str, Any]:
        asked: dict[str, Any] = {"prompt": [1, 2, 3], "max_tokens": 4, "return_token_ids": True}
        answer = httpx.post(f"{self.url}/completions", json=asked | fields, timeout=60)
        assert answer.status_code == 200, answer.text
        choice: dict[str, Any] = answer.json()["choices"][0]
        return choice

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = httpx.get(self.url.removesuffix("v1") + "health", timeout=60).json()
        return found

    def wait_for_version(self, version: list[int]) -> None:
        deadline = time.monotonic() + 60
        while self.health()["policy_version"] != version:
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)


@contextmanager
def serving(checkpoint: Path, *more: str) -> Iterator[Server]:
    log = checkpoint.parent / "serve.log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*COMMAND, "--checkpoint", str(checkpoint), *more],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": ".:platform:client"},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with process:
        try:
            assert process.stdout is not None
            ready, _, _ = select.select([process.stdout], [], [], START_SECONDS)
            said = process.stdout.readline() if ready else ""
            found = re.search(r"http://\S+", said)
            assert found, log.read_text()
            yield Server(process, found[0], log)
        finally:
            process.kill()


def refused(checkpoint: Path, *more: str) -> tuple[int, str]:
    """Return the exit code and the last words of a server that does not start."""
    done = subprocess.run(
        [*COMMAND, "--checkpoint", str(checkpoint), *more],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": ".:platform:client"},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def agrees(weights: Transformer, choice: dict[str, Any]) -> bool:
    """Return whether these weights give the answer the logprobs that it came with."""
    prompt, tokens = choice["prompt_token_ids"], choice["token_ids"]
    expected = logprobs(weights, prompt + tokens)
    found = [expected[len(prompt) - 1 + place, token].item() for place, token in enumerate(tokens)]
    return found == pytest.approx(choice["token_logprobs"], abs=1e-4)


@pytest.mark.django_db(transaction=True)
def test_it_follows_the_weights_of_a_run(checkpoint: Path, live_server: LiveServer) -> None:
    run = make_run()
    worker, trainer_token = (make_token(scope, run=run)[1] for scope in ("worker", "trainer"))
    options = ("--run", run.name, "--platform", live_server.url, "--token", worker)
    with (
        Connection(live_server.url, trainer_token) as connection,
        serving(checkpoint, *options) as server,
    ):
        trainer = Trainer("", run.name, connection=connection)
        trainer.register()
        run.refresh_from_db()
        before = server.ask()
        assert before["policy_versions"] == [[0, -1, len(before["token_ids"])]]
        assert agrees(model(0), before)

        # One that does not fit is refused by name, and the next one is taken all the same.
        trainer.publish_weights({"model.norm.weight": torch.ones(32).numpy()}, step=0)
        published = {name: part.numpy() for name, part in checkpoints.named_tensors(model(1))}
        deadline = time.monotonic() + 60
        while "version" not in server.log.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        trainer.publish_weights(published, step=1)
        server.wait_for_version([run.epoch, 1])

        after = server.ask()
        assert after["policy_versions"] == [[run.epoch, 1, len(after["token_ids"])]]
        assert agrees(model(1), after)
        assert not agrees(model(0), after)
        assert (
            "is refused: tensors are missing: model.embed_tokens.weight" in server.log.read_text()
        )


def test_it_takes_weights_from_a_trainer_without_a_platform(checkpoint: Path) -> None:
    content = save(dict(checkpoints.named_tensors(model(1))))
    short = save({"model.norm.weight": torch.ones(32)})
    with serving(checkpoint, "--accept-weights") as server:
        put = server.url + "/weights/1/{}"
        answers = [
            httpx.put(put.format(1), content=short, timeout=60),
            httpx.put(put.format(1), content=b"no tensors", timeout=60),
            httpx.put(put.format(1), content=bytes(1 << 24), timeout=60),
            httpx.put(put.format(1), content=content, timeout=60),
            httpx.put(put.format(1), content=content, timeout=60),
        ]

        assert [answer.status_code for answer in answers] == [400, 400, 413, 200, 409]
        assert "tensors are missing" in answers[0].json()["error"]["message"]
        assert answers[3].json() == {"policy_version": [1, 1]}
        assert agrees(model(1), server.ask())


def test_nobody_replaces_weights_who_was_not_let(checkpoint: Path) -> None:
    with serving(checkpoint) as server:
        assert httpx.put(f"{server.url}/weights/1/1", content=b"").status_code == 404


@pytest.mark.parametrize("stopper", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_at_once_and_tells_whom_it_was_answering(
    checkpoint: Path, stopper: signal.Signals
) -> None:
    with serving(checkpoint) as server:
        asked = {"prompt": [1], "max_tokens": 250, "n": 1024, "ignore_eos": True}
        answers: list[httpx.Response] = []

        def ask() -> None:
            answers.append(httpx.post(f"{server.url}/completions", json=asked, timeout=120))

        asking = threading.Thread(target=ask)
        asking.start()
        deadline = time.monotonic() + 60
        while not server.health()["running"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)

        server.process.send_signal(stopper)
        # Idle machines need half a second; all the answers would take a minute.
        assert server.process.wait(15) == 0

        asking.join(30)
        assert answers[0].status_code == 503
        assert answers[0].json()["error"]["message"] == "the server is stopping"
        assert "Traceback" not in server.log.read_text()


def test_a_missing_tensor_is_named(checkpoint: Path) -> None:
    tensors = dict(checkpoints.named_tensors(model(0)))
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, checkpoint / "model.safetensors")

    code, said = refused(checkpoint)

    assert code == 2
    assert "tensors are missing: model.layers.1.mlp.up_proj.weight" in said


def test_a_tokenizer_of_another_size_is_refused(checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"vocab_size": 20}))

    code, said = refused(checkpoint)

    assert code == 2
    assert f"the tokenizer has {TOKENIZER.vocab_size} tokens, the model knows 20" in said


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    code, said = refused(tmp_path)
    assert (code, "rolldeck serve: " in said) == (2, True)

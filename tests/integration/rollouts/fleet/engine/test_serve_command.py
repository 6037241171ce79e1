"""`rolldeck inference` as a process: answers, weight updates and errors."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from pytest_django.live_server_helper import LiveServer
from safetensors.torch import save, save_file

from rolldeck.http import Connection
from rolldeck.trainer import Trainer
from rollouts.fleet.engine import checkpoints
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.policies.base import tensor_of
from tests.factories import make_run, make_token
from tests.integration.rollouts.serve_processes import (
    COMMAND,
    ROOT,
    START_SECONDS,
    TOKENIZER,
    model,
    serving,
    write_checkpoint,
)
from tests.unit.rollouts.fleet.engine.small_models import logprobs


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "tiny", model(0))


def refused(checkpoint: Path, *more: str) -> tuple[int, str]:
    """Return the exit code and the last output of a server that fails to start."""
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


def agrees(weights: Transformer, choice: dict[str, Any], *, within: float = 1e-4) -> bool:
    """Return whether these weights reproduce the logprobs of the answer."""
    prompt, tokens = choice["prompt_token_ids"], choice["token_ids"]
    expected = logprobs(weights, prompt + tokens)
    actual = [expected[len(prompt) - 1 + place, token].item() for place, token in enumerate(tokens)]
    return actual == pytest.approx(choice["token_logprobs"], abs=within)


@pytest.mark.django_db(transaction=True)
def test_the_server_follows_the_weights_of_a_run(checkpoint: Path, live_server: LiveServer) -> None:
    run = make_run()
    worker, trainer_token = (make_token(scope, run=run)[1] for scope in ("worker", "trainer"))
    options = ("--run", run.name, "--url", live_server.url, "--token", worker)
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

        # Weights that do not fit are rejected by name, and the next ones are still loaded.
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
        assert "refused: tensors are missing: model.embed_tokens.weight" in server.log.read_text()


@pytest.mark.django_db(transaction=True)
def test_the_server_follows_weights_in_bfloat16(tmp_path: Path, live_server: LiveServer) -> None:
    first, later = (
        write_checkpoint(tmp_path / str(seed), model(seed).bfloat16()) for seed in (0, 1)
    )
    run = make_run()
    worker, trainer_token = (make_token(scope, run=run)[1] for scope in ("worker", "trainer"))
    options = ("--run", run.name, "--url", live_server.url, "--token", worker)
    with (
        Connection(live_server.url, trainer_token) as connection,
        serving(first, *options) as server,
    ):
        trainer = Trainer("", run.name, connection=connection)
        trainer.register()
        run.refresh_from_db()
        published = dict(checkpoints.named_tensors(checkpoints.load(later)))
        manifest = trainer.publish_weights(published, step=0)
        server.wait_for_version([run.epoch, 0])
        answer = server.ask()
        _, again = trainer.current_weights()

    assert {spec.dtype for spec in manifest.tensors} == {"BF16"}
    assert answer["policy_versions"] == [[run.epoch, 0, len(answer["token_ids"])]]
    # One pass over all tokens rounds differently from one token at a time: 8 bits of mantissa.
    assert agrees(checkpoints.load(later), answer, within=0.1)
    assert not agrees(checkpoints.load(first), answer, within=0.1)
    for name, tensor in published.items():
        assert torch.equal(tensor_of(again[name]).view(torch.int16), tensor.view(torch.int16))


def test_the_server_accepts_weights_from_a_trainer_without_a_platform(checkpoint: Path) -> None:
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


def test_weights_cannot_be_replaced_without_permission(checkpoint: Path) -> None:
    with serving(checkpoint) as server:
        assert httpx.put(f"{server.url}/weights/1/1", content=b"", timeout=60).status_code == 404


def test_a_missing_tensor_is_named(checkpoint: Path) -> None:
    tensors = dict(checkpoints.named_tensors(model(0)))
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, checkpoint / "model.safetensors")

    code, error = refused(checkpoint)

    assert code == 2
    assert "tensors are missing: model.layers.1.mlp.up_proj.weight" in error


def test_a_tokenizer_of_another_size_is_refused(checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"vocab_size": 20}))

    code, error = refused(checkpoint)

    assert code == 2
    assert f"the tokenizer has {TOKENIZER.vocab_size} tokens, the model only 20" in error


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path) -> None:
    code, error = refused(tmp_path)
    assert (code, "rolldeck inference: " in error) == (2, True)

    code, error = refused(tmp_path / "none")
    assert (code, f"{tmp_path}/none is not a folder" in error) == (2, True)

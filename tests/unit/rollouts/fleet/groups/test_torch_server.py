"""The in-process engine implements the interface of inference servers."""

import threading
import time

import pytest
import torch

from rollouts.fleet.engine.checkpoints import named_tensors
from rollouts.fleet.engine.engine import Answer, Engine, Prompt, PromptTooLong, SamplingParams
from rollouts.fleet.engine.serving import EngineFailed, EngineThread
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.groups.torch_server import TorchInferenceServer
from rollouts.fleet.inference.contract import InferenceFailed, InferenceServer
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit
from tests.unit.rollouts.fleet.engine.small_models import small_config, small_model

NEVER = threading.Event()


class SlowModel(Transformer):
    """Model with slow steps."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        time.sleep(0.02)
        return super().logits(hidden)


class BrokenModel(Transformer):
    """Model that fails at its first token."""

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        raise RuntimeError(f"out of memory for {len(hidden)}")


def prompt(*tokens: int, most: int = 6, answers: int = 1, seed: int = 0) -> Prompt:
    return Prompt(
        tokens=tokens, sampling=SamplingParams(max_tokens=most, seed=seed), answers=answers
    )


def test_answers_depend_on_prompt_and_index_only() -> None:
    model = small_model()
    server: InferenceServer = TorchInferenceServer(model, rows=4, version=(2, 7))
    prompts = [prompt(1, 2, 3, answers=3, seed=5), prompt(4, seed=9)]
    try:
        assert server.wait_until_ready(timeout_seconds=1, stop=NEVER)
        together = server.generate(prompts, stop=NEVER, timeout_seconds=60)
        alone = server.generate(prompts[1:], stop=NEVER, timeout_seconds=60)
    finally:
        server.close()

    assert [len(answers) for answers in together] == [3, 1]
    assert [answer.index for answer in together[0]] == [0, 1, 2]
    assert together[1][0].tokens == alone[0][0].tokens
    assert all(answer.versions == [(2, 7)] * 6 for answer in together[0])


def test_a_stop_ends_the_wait_and_cancels_open_requests() -> None:
    server = TorchInferenceServer(SlowModel(small_config()), rows=2)
    stop = threading.Event()
    stopped_at = 0.0

    def stop_soon() -> None:
        nonlocal stopped_at
        while server.progress.tokens < 4:
            time.sleep(0.01)
        stopped_at = time.monotonic()
        stop.set()

    threading.Thread(target=stop_soon, daemon=True).start()
    try:
        answers = server.generate(
            [prompt(1, most=90), prompt(2, most=90), prompt(3, most=90)],
            stop=stop,
            timeout_seconds=60,
        )
        assert time.monotonic() - stopped_at < 10
        assert {answer.finish for each in answers for answer in each} == {"cancelled"}
        assert 0 < len(answers[0][0].tokens) < 90
        assert not answers[2][0].tokens
        # Cancelled answers free their rows.
        after = server.generate([prompt(3, most=2)], stop=NEVER, timeout_seconds=60)
        assert after[0][0].finish == "length"
    finally:
        server.close()


def test_an_engine_failure_and_a_timeout_are_reported() -> None:
    broken = TorchInferenceServer(BrokenModel(small_config()), rows=2)
    slow = TorchInferenceServer(SlowModel(small_config()), rows=2)
    try:
        for _ in range(2):
            with pytest.raises(InferenceFailed, match="out of memory"):
                broken.generate([prompt(1)], stop=NEVER, timeout_seconds=60)
        assert not broken.wait_until_ready(timeout_seconds=1, stop=NEVER)
        with pytest.raises(InferenceFailed, match="1 answers not completed within 0 s"):
            slow.generate([prompt(1, most=90)], stop=NEVER, timeout_seconds=0.2)
    finally:
        broken.close()
        slow.close()


def test_a_prompt_that_leaves_no_room_is_refused() -> None:
    server = TorchInferenceServer(small_model(), rows=2)
    try:
        with pytest.raises(PromptTooLong):
            server.generate([prompt(1), prompt(*[1] * 96)], stop=NEVER, timeout_seconds=60)
    finally:
        server.close()


def test_weights_change_during_generation_and_others_are_refused() -> None:
    server = TorchInferenceServer(SlowModel(small_config()), rows=2, version=(1, 0))
    other = {name: value.numpy() for name, value in named_tensors(small_model(seed=3))}

    def update_soon() -> None:
        while server.progress.tokens < 2:
            time.sleep(0.01)
        server.update_weights(other, (1, 1))

    threading.Thread(target=update_soon, daemon=True).start()
    try:
        answers = server.generate([prompt(1, most=90)], stop=NEVER, timeout_seconds=60)
        assert set(answers[0][0].versions) == {(1, 0), (1, 1)}
        assert server.version == (1, 1)
        del other["model.norm.weight"]
        with pytest.raises(WeightsDoNotFit, match=r"model\.norm\.weight"):
            server.update_weights(other, (1, 2))
    finally:
        server.close()


class StuckModel(Transformer):
    """Model whose step takes a given time."""

    begun = threading.Event()
    goes_on = threading.Event()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        self.begun.set()
        self.goes_on.wait(120)
        return super().logits(hidden)


def test_waiting_requests_receive_the_end_while_a_step_is_under_way() -> None:
    thread = EngineThread(Engine(StuckModel(small_config()), rows=1), context=96)
    received: list[Answer] = []
    thread.submit(prompt(1, answers=3), received.append)
    assert StuckModel.begun.wait(60)
    thread.submit(prompt(2), received.append)

    thread.give_up("stopped by the test")

    assert [answer.finish for answer in received] == ["cancelled"] * 4
    with pytest.raises(EngineFailed, match="stopped by the test"):
        thread.submit(prompt(3), received.append)
    StuckModel.goes_on.set()
    thread.close()
    assert len(received) == 4

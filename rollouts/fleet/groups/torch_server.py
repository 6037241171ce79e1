"""Inference server in this process, with an engine in a thread."""

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from rolldeck.wire import ReplicaReport
from rollouts.fleet.engine.checkpoints import CheckpointUnreadable, assign
from rollouts.fleet.engine.engine import Answer, Engine, Prompt, Version
from rollouts.fleet.engine.serving import EngineFailed, EngineThread, PendingGeneration, Progress
from rollouts.fleet.engine.tokenizers import Tokenizer
from rollouts.fleet.engine.transformer import Transformer
from rollouts.fleet.inference.contract import InferenceFailed
from rollouts.fleet.policies.base import tensor_of
from rollouts.fleet.policies.policy_protocol import WeightsDoNotFit

POLL_SECONDS: Final = 0.1
"""Interval at which a waiting caller checks whether to stop."""


class TorchInferenceServer:
    """An :class:`rollouts.fleet.inference.contract.InferenceServer` without a server process."""

    def __init__(
        self,
        model: Transformer,
        *,
        rows: int,
        version: Version = (0, -2),
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Start the engine's thread; the server takes ownership of the model.

        The cache has room for `rows` concurrent answers. Prompts with stop texts require a
        tokenizer.
        """
        self._config = model.config
        weight = model.embed.weight
        self._device, self._dtype = str(weight.device), weight.dtype
        self._thread = EngineThread(
            Engine(model, rows=rows, version=version, tokenizer=tokenizer),
            context=model.config.max_position_embeddings,
        )

    @property
    def version(self) -> Version:
        return self._thread.progress.version

    @property
    def progress(self) -> Progress:
        return self._thread.progress

    def generate(
        self, prompts: Sequence[Prompt], *, stop: threading.Event, timeout_seconds: float
    ) -> list[list[Answer]]:
        waiting = _Waiting(prompts)
        pending: list[PendingGeneration] = []
        try:
            for place, prompt in enumerate(prompts):
                pending.append(self._thread.submit(prompt, waiting.listener(place)))
            deadline = time.monotonic() + timeout_seconds
            while not (waiting.wait(POLL_SECONDS) or stop.is_set() or self._thread.error):
                if time.monotonic() > deadline:
                    text = f"{waiting.missing} answers not completed within {timeout_seconds:.0f} s"
                    raise InferenceFailed(text)
            # A failing engine ends all waits and stores its error.
            if self._thread.error and not stop.is_set():
                raise InferenceFailed(self._thread.error)
        except EngineFailed as failure:
            raise InferenceFailed(str(failure)) from failure
        finally:
            if not waiting.is_over:
                for generation in pending:
                    self._thread.cancel(generation)
        return waiting.answers()

    def prepare(self, tensors: Mapping[str, Any]) -> Transformer:
        """Return a model with these weights, without affecting generation.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the model.
        """
        with torch.device("meta"):
            model = Transformer(self._config)
        given = {
            name: value if isinstance(value, Tensor) else tensor_of(value)
            for name, value in tensors.items()
        }
        try:
            assign(model, given, device=self._device, dtype=self._dtype)
        except CheckpointUnreadable as misfit:
            raise WeightsDoNotFit(str(misfit)) from misfit
        return model.eval()

    def adopt(self, model: Transformer, version: Version) -> None:
        self._thread.update_weights(model, version)

    def update_weights(self, tensors: Mapping[str, Any], version: Version) -> None:
        """Use other weights from the next step on.

        Raises:
            WeightsDoNotFit: If names or shapes do not match the model.
        """
        self.adopt(self.prepare(tensors), version)

    def unanswered_seconds(self) -> float:
        return 0.0

    def outage(self) -> str:
        """Return an empty text: calls of a failed engine raise at once."""
        return ""

    def replicas(self) -> list[ReplicaReport]:
        return []

    def wait_until_ready(self, *, timeout_seconds: float, stop: threading.Event) -> bool:
        """Return whether the server can generate, without waiting: the model is in memory."""
        del timeout_seconds
        return not (stop.is_set() or self._thread.error)

    def rest(self) -> None:
        """Do nothing: an idle engine uses no processor."""

    def close(self) -> None:
        self._thread.close()


class _Waiting:
    """Answers that a call waits for; the engine's thread fills them in."""

    def __init__(self, prompts: Sequence[Prompt]) -> None:
        self._prompts = prompts
        self._latest: dict[tuple[int, int], Answer] = {}
        self._ended: set[tuple[int, int]] = set()
        self._total = sum(prompt.answers for prompt in prompts)
        self._is_over = threading.Event()
        if not self._total:
            self._is_over.set()

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    @property
    def missing(self) -> int:
        return self._total - len(self._ended)

    def wait(self, seconds: float) -> bool:
        return self._is_over.wait(seconds)

    def listener(self, place: int) -> Any:
        """Return a callback that takes the answers to prompt number `place`."""

        def listen(answer: Answer) -> None:
            at = place, answer.index
            self._latest[at] = answer
            if answer.finish:
                self._ended.add(at)
                if not self.missing:
                    self._is_over.set()

        return listen

    def answers(self) -> list[list[Answer]]:
        """Return all answers by prompt and index; unfinished ones count as cancelled."""
        return [
            [self._answer(place, index) for index in range(prompt.answers)]
            for place, prompt in enumerate(self._prompts)
        ]

    def _answer(self, place: int, index: int) -> Answer:
        found = self._latest.get((place, index))
        if found is None:
            return Answer(request=0, index=index, finish="cancelled")
        if (place, index) in self._ended:
            return found
        # The engine's thread may still be appending; it appends the versions last.
        count = len(found.versions)
        return Answer(
            request=found.request,
            index=index,
            tokens=found.tokens[:count],
            logprobs=found.logprobs[:count],
            versions=found.versions[:count],
            finish="cancelled",
        )

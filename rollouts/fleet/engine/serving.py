"""Run an engine in a dedicated thread, for callers in other threads."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rollouts.fleet.engine.engine import (
    Answer,
    Engine,
    Prompt,
    PromptTooLong,
    TokenUnknown,
    Version,
)
from rollouts.fleet.engine.transformer import Transformer

STOP_SECONDS: Final = 1.0
"""Time limit for `close` to wait for the current step; no other call waits."""
STOPPING: Final = "the server is stopping"
IDLE_SECONDS: Final = 0.2
"""Interval at which an idle engine checks whether to stop."""

Listener = Callable[[Answer], None]
"""Called when an answer got a token or ended, one call at a time; must not block."""


class EngineFailed(RuntimeError):
    """The engine failed and generates no more; the text names the cause."""


class Progress(NamedTuple):
    """Work done and work in progress of an engine."""

    running: int
    waiting: int
    tokens: int
    """Total number of generated tokens."""
    version: Version


@dataclass(slots=True, eq=False)
class PendingGeneration:
    """A submitted request."""

    prompt: Prompt
    listener: Listener
    number: int | None = None
    ended: int = 0
    """Number of answers that have ended."""


class PendingScore(NamedTuple):
    """A prompt whose log probabilities were requested."""

    tokens: Sequence[int]
    likeliest: int
    result: "Future[list[dict[int, float]]]"


@dataclass(slots=True)
class _Inbox:
    begun: list[PendingGeneration] = field(default_factory=list)
    scores: list[PendingScore] = field(default_factory=list)
    cancelled: list[PendingGeneration] = field(default_factory=list)
    weights: tuple[Transformer, Version] | None = None


class EngineThread:
    """Accepts requests and weights from any thread; only `close` and `wait_for_version` block."""

    def __init__(self, engine: Engine, *, context: int) -> None:
        self.error = ""
        """Reason why the engine has ended; empty while it runs."""
        self.run = ""
        """Run whose workers have loaded the weights; empty before."""
        self._engine = engine
        self._context = context
        self._waiters: dict[int, PendingGeneration] = {}
        self._inbox = _Inbox()
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def progress(self) -> Progress:
        """Current progress of the engine."""
        engine = self._engine
        return Progress(engine.running, engine.waiting, engine.drawn, engine.version)

    def submit(self, prompt: Prompt, listener: Listener) -> PendingGeneration:
        """Submit a prompt.

        Raises:
            PromptTooLong: If it does not fit the context.
            TokenUnknown: If a token is not in the model's vocabulary.
            StopTextsUnsupported: If it has stop texts, and the engine has no tokenizer.
            EngineFailed: If the engine has ended.
        """
        if not 0 < len(prompt.tokens) < self._context:
            has, most = len(prompt.tokens), self._context - 1
            raise PromptTooLong(f"the prompt has {has} tokens; 1 to {most} fit the context")
        size = self._engine.vocab_size
        for token in (min(prompt.tokens), max(prompt.tokens)):
            if not 0 <= token < size:
                raise TokenUnknown(f"token {token} is outside the vocabulary, 0 to {size - 1}")
        self._engine.check_stop_texts(prompt)
        pending = PendingGeneration(prompt, listener)
        with self._changed:
            if self.error:
                raise EngineFailed(self.error)
            self._inbox.begun.append(pending)
            self._changed.notify()
        return pending

    def prompt_logprobs(
        self, tokens: Sequence[int], *, likeliest: int
    ) -> "Future[list[dict[int, float]]]":
        """Compute the log probabilities of a prompt between two steps.

        See :meth:`Engine.prompt_logprobs`. The future raises EngineFailed if the engine ends.

        Raises:
            EngineFailed: If the engine has ended.
        """
        pending = PendingScore(tokens, likeliest, Future())
        with self._changed:
            if self.error:
                raise EngineFailed(self.error)
            self._inbox.scores.append(pending)
            self._changed.notify()
        return pending.result

    def cancel(self, pending: PendingGeneration) -> None:
        """Cancel a request; its listener may still be called."""
        with self._changed:
            self._inbox.cancelled.append(pending)
            self._changed.notify()

    def update_weights(self, model: Transformer, version: Version) -> None:
        """Use other weights after the current step."""
        with self._changed:
            self._inbox.weights = model, version
            self._changed.notify()

    def wait_for_version(self, version: Version, *, timeout_seconds: float) -> bool:
        """Wait until `version` or a later one is in use; return False on timeout or failure."""
        with self._changed:
            return (
                self._changed.wait_for(
                    lambda: self._engine.version >= version or bool(self.error), timeout_seconds
                )
                and not self.error
            )

    def give_up(self, reason: str) -> None:
        """Cancel all pending answers, without waiting for the current step.

        Args:
            reason: Text of `error`, which later requests also get.
        """
        with self._changed:
            self._is_closing = True
            self.error = self.error or reason
            waiting = [*self._waiters.values(), *self._inbox.begun]
            for score in self._inbox.scores:
                if score.result.set_running_or_notify_cancel():
                    score.result.set_exception(EngineFailed(self.error))
            self._waiters, self._inbox = {}, _Inbox()
            self._changed.notify_all()
            for pending in waiting:
                for index in range(pending.prompt.answers):
                    ended = Answer(request=pending.number or 0, index=index, finish="cancelled")
                    pending.listener(ended)

    def close(self) -> None:
        """Cancel all answers and wait briefly for the thread; a long step ends it later."""
        self.give_up(STOPPING)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            while not self._is_closing:
                for score in self._read_inbox():
                    if not score.result.set_running_or_notify_cancel():
                        continue
                    try:
                        found = self._engine.prompt_logprobs(
                            score.tokens, likeliest=score.likeliest
                        )
                    except Exception as error:
                        failure = EngineFailed(f"{type(error).__name__}: {error}")
                        score.result.set_exception(failure)
                        raise
                    score.result.set_result(found)
                answers = self._engine.step()
                with self._changed:
                    for answer in answers:
                        pending = self._waiters.get(answer.request)
                        if pending is None:
                            continue
                        pending.listener(answer)
                        pending.ended += bool(answer.finish)
                        if pending.ended == pending.prompt.answers:
                            del self._waiters[answer.request]
        except Exception as error:  # noqa: BLE001 passed to all pending requests
            self.give_up(f"{type(error).__name__}: {error}")

    def _read_inbox(self) -> list[PendingScore]:
        with self._changed:
            while self._engine.is_idle and not self._is_closing and self._inbox == _Inbox():
                self._changed.wait(IDLE_SECONDS)
            inbox, self._inbox = self._inbox, _Inbox()
            if inbox.weights is not None:
                self._engine.adopt(*inbox.weights)
                self._changed.notify_all()
            for pending in inbox.begun:
                pending.number = self._engine.submit(pending.prompt)
                self._waiters[pending.number] = pending
            for pending in inbox.cancelled:
                if pending.number is not None and pending.number in self._waiters:
                    del self._waiters[pending.number]
                    self._engine.cancel(pending.number)
            return inbox.scores

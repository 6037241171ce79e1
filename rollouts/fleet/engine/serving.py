"""Run an engine in a thread of its own, for callers in other threads."""

import threading
from collections.abc import Callable
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
"""How long `close` waits for the step under way; nobody else does."""
STOPPING: Final = "the server is stopping"
IDLE_SECONDS: Final = 0.2
"""How long an idle engine sleeps before it looks whether it shall end."""

Listener = Callable[[Answer], None]
"""Called with an answer that got a token or has ended, one call at a time; must not wait."""


class EngineFailed(RuntimeError):
    """The engine raised and generates nothing more; the text says what."""


class Progress(NamedTuple):
    """How much an engine has done and has before it."""

    running: int
    waiting: int
    tokens: int
    """Generated ever."""
    version: Version


@dataclass(slots=True, eq=False)
class Ticket:
    """A request that was handed over."""

    prompt: Prompt
    listener: Listener
    number: int | None = None
    ended: int = 0
    """Answers that have ended."""


@dataclass(slots=True)
class _Inbox:
    begun: list[Ticket] = field(default_factory=list)
    cancelled: list[Ticket] = field(default_factory=list)
    weights: tuple[Transformer, Version] | None = None


class EngineThread:
    """Takes requests and weights from any thread; every method returns at once but `close`."""

    def __init__(self, engine: Engine, *, context: int) -> None:
        """Start the thread.

        Args:
            engine: Nobody else's from now on.
            context: Tokens that a prompt and its answer may have together.
        """
        self.error = ""
        """Why the engine has ended, if it has."""
        self._engine = engine
        self._context = context
        self._tickets: dict[int, Ticket] = {}
        self._inbox = _Inbox()
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def progress(self) -> Progress:
        """How much is done and under way."""
        engine = self._engine
        return Progress(engine.running, engine.waiting, engine.drawn, engine.version)

    def submit(self, prompt: Prompt, listener: Listener) -> Ticket:
        """Let a prompt be answered.

        Raises:
            PromptTooLong: If it does not fit the context.
            TokenUnknown: If the model lacks one of its tokens.
            EngineFailed: If the engine has ended.
        """
        if not 0 < len(prompt.tokens) < self._context:
            has, most = len(prompt.tokens), self._context - 1
            raise PromptTooLong(f"the prompt has {has} tokens; 1 to {most} fit the context")
        size = self._engine.vocab_size
        for token in (min(prompt.tokens), max(prompt.tokens)):
            if not 0 <= token < size:
                raise TokenUnknown(f"token {token} is none of the model's, 0 to {size - 1}")
        ticket = Ticket(prompt, listener)
        with self._changed:
            if self.error:
                raise EngineFailed(self.error)
            self._inbox.begun.append(ticket)
            self._changed.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """End a request; its listener may still hear of it."""
        with self._changed:
            self._inbox.cancelled.append(ticket)
            self._changed.notify()

    def update_weights(self, model: Transformer, version: Version) -> None:
        """Go on with other weights after the step under way."""
        with self._changed:
            self._inbox.weights = model, version
            self._changed.notify()

    def wait_for_version(self, version: Version, *, timeout_seconds: float) -> bool:
        """Return whether tokens are drawn by `version` or a later one, within the time."""
        with self._changed:
            return (
                self._changed.wait_for(
                    lambda: self._engine.version >= version or bool(self.error), timeout_seconds
                )
                and not self.error
            )

    def give_up(self, reason: str) -> None:
        """Tell everybody who waits that it is over, without waiting for the step under way.

        Args:
            reason: What `error` says from now on, and whoever asks later hears.
        """
        with self._changed:
            self._is_closing = True
            self.error = self.error or reason
            waiting = [*self._tickets.values(), *self._inbox.begun]
            self._tickets, self._inbox = {}, _Inbox()
            self._changed.notify_all()
            for ticket in waiting:
                for index in range(ticket.prompt.answers):
                    ended = Answer(request=ticket.number or 0, index=index, finish="cancelled")
                    ticket.listener(ended)

    def close(self) -> None:
        """Give up, and wait a moment for the thread; a long step ends it later."""
        self.give_up(STOPPING)
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._read_inbox()
                self._tell(self._engine.step())
        except Exception as error:  # noqa: BLE001 told to everybody who waits
            self.give_up(f"{type(error).__name__}: {error}")

    def _read_inbox(self) -> None:
        with self._changed:
            while self._engine.is_idle and not self._is_closing and self._inbox == _Inbox():
                self._changed.wait(IDLE_SECONDS)
            inbox, self._inbox = self._inbox, _Inbox()
            if inbox.weights is not None:
                self._engine.adopt(*inbox.weights)
                self._changed.notify_all()
            for ticket in inbox.begun:
                ticket.number = self._engine.submit(ticket.prompt)
                self._tickets[ticket.number] = ticket
            for ticket in inbox.cancelled:
                if ticket.number is not None and ticket.number in self._tickets:
                    del self._tickets[ticket.number]
                    self._engine.cancel(ticket.number)

    def _tell(self, answers: list[Answer]) -> None:
        with self._changed:
            for answer in answers:
                ticket = self._tickets.get(answer.request)
                if ticket is None:
                    continue
                ticket.listener(answer)
                ticket.ended += bool(answer.finish)
                if ticket.ended == ticket.prompt.answers:
                    del self._tickets[answer.request]

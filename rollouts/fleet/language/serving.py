"""Run an engine in a thread of its own, for callers in other threads."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from rollouts.fleet.language.engine import Answer, Engine, Prompt, PromptTooLong, Version
from rollouts.fleet.language.transformer import Transformer

STOP_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 0.2
"""How long an idle engine sleeps before it looks whether it shall end."""

Listener = Callable[[Answer], None]
"""Called by the engine's thread with an answer that got a token or has ended; must not wait."""


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
            EngineFailed: If the engine has ended.
        """
        if not 0 < len(prompt.tokens) < self._context:
            has, most = len(prompt.tokens), self._context - 1
            raise PromptTooLong(f"the prompt has {has} tokens; 1 to {most} fit the context")
        if self.error:
            raise EngineFailed(self.error)
        ticket = Ticket(prompt, listener)
        with self._changed:
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

    def end_soon(self) -> None:
        """End after the step under way; whatever waits hears that it is cancelled."""
        # No lock: a signal handler calls this, perhaps while this very thread holds it.
        self._is_closing = True

    def close(self) -> None:
        """End the thread; what is under way is cancelled."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._read_inbox()
                self._tell(self._engine.step())
            self._fail("the server is stopping")
        except Exception as error:  # noqa: BLE001 told to everybody who waits
            self._fail(f"{type(error).__name__}: {error}")

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
        for answer in answers:
            ticket = self._tickets.get(answer.request)
            if ticket is None:
                continue
            ticket.listener(answer)
            ticket.ended += bool(answer.finish)
            if ticket.ended == ticket.prompt.answers:
                del self._tickets[answer.request]

    def _fail(self, error: str) -> None:
        self.error = error
        with self._changed:
            waiting = [*self._tickets.values(), *self._inbox.begun]
            self._changed.notify_all()
        for ticket in waiting:
            for index in range(ticket.prompt.answers):
                ended = Answer(request=ticket.number or 0, index=index, finish="cancelled")
                ticket.listener(ended)

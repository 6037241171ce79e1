"""Captured calls: their storage on the platform, and their spans."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from rolldeck import tracing
from rolldeck.captures import CallPush
from rolldeck.errors import RolldeckError, TooBusyError
from rolldeck.http import Call, Connection
from rollouts.fleet.capture.upstream import Generated


class CallNotStored(Exception):
    """The platform did not store a call; `status` is the status of the response to the agent."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class PlatformCallStore:
    """Stores calls on the platform; thread-safe.

    Calls have keys, so retries during short outages are safe.
    """

    def __init__(self, connection: Connection, run: str) -> None:
        """Set up storage for one run.

        Args:
            connection: Connection to the platform, with a token of the scope `env` or `worker`.
            run: Name of the run.
        """
        self.saved = 0
        """Total number of stored calls."""
        self._connection = connection
        self._path = f"/api/v1/runs/{quote(run, safe='')}/captures"
        self._lock = threading.Lock()

    def save(self, session: str, call: CallPush) -> None:
        """Store a call durably.

        Raises:
            CallNotStored: If it could not be stored.
        """
        content = msgspec.json.encode(call)
        if b"\\u0000" in content:
            # The platform does not store NUL characters.
            content = msgspec.json.encode(_without_nul(msgspec.to_builtins(call)))
        push = Call(
            method="POST",
            path=f"{self._path}/{session}/calls",
            content=content,
            content_type="application/json",
            is_repeatable=True,
        )
        try:
            self._connection.send(push)
        except RolldeckError as failure:
            is_theirs = 400 <= failure.status < 500 and not isinstance(failure, TooBusyError)
            text = f"the platform did not store the call: {failure}"
            raise CallNotStored(text, status=409 if is_theirs else 503) from failure
        with self._lock:
            self.saved += 1

    def close(self) -> None:
        self._connection.close()


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, list):
        return [_without_nul(one) for one in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(one) for name, one in value.items()}
    return value


if TYPE_CHECKING:
    from opentelemetry.trace import Span


class CallSpan:
    """Span of one call, which a stream ends after the block that opened it."""

    def __init__(self, opened: "Span | None", *, kind: str, model: str) -> None:
        self._span, self._model = opened, model
        self._operation = "text_completion" if kind == "completion" else "chat"

    def current(self) -> AbstractContextManager[object]:
        """Return a block in which the span is current again."""
        if self._span is None:
            return nullcontext()
        from opentelemetry.trace import use_span

        return use_span(self._span, end_on_exit=False)

    def finish(self, generated: Generated) -> None:
        """End the span, with the sizes of the first answer."""
        tracing.add_genai(
            self._span,
            operation=self._operation,
            provider="openai",
            model=self._model,
            input_tokens=generated.prompt_tokens,
            output_tokens=generated.tokens,
        )
        if self._span is not None:
            self._span.end()

    def fail(self, error: BaseException) -> None:
        """End the span with an error."""
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR, str(error))
            self._span.end()


@contextmanager
def call_span(*, kind: str, model: str, headers: Mapping[str, str]) -> Iterator[CallSpan]:
    """Open the span of a call in the agent's trace; it ends here only if the block fails.

    Args:
        kind: API of the request.
        model: Model that the agent named.
        headers: Headers of the agent's request.
    """
    with tracing.span(f"capture {kind}", kind="client", parent=headers, ends=False) as opened:
        call = CallSpan(opened, kind=kind, model=model)
        try:
            yield call
        except BaseException as error:
            call.fail(error)
            raise

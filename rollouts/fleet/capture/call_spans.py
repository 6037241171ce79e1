"""Spans of captured calls, from an agent's request to the stored call."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from rolldeck import tracing
from rollouts.fleet.capture.reading import Generated

if TYPE_CHECKING:
    from opentelemetry.trace import Span

COMPLETION: Final = "completion"


class CallSpan:
    """Span of one call, which a stream ends after the block that opened it."""

    def __init__(self, opened: "Span | None", *, kind: str, model: str) -> None:
        self._span, self._model = opened, model
        self._operation = "text_completion" if kind == COMPLETION else "chat"

    def current(self) -> AbstractContextManager[object]:
        """Return a block in which the span is current again."""
        if self._span is None:
            return nullcontext()
        from opentelemetry.trace import use_span

        return use_span(self._span, end_on_exit=False)

    def finish(self, generated: Generated | None = None) -> None:
        """End the span, with the sizes of the first answer if there is one."""
        if generated is not None:
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

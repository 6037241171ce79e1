"""A captured call is a span of the agent's trace, with sizes if they are switched on."""

from collections.abc import Iterator

import pytest

from tests.contract.capture_setup import MODEL, Stand, small_engine, stand_with
from tests.server import wait_until
from tests.trace_collector import PARENT, TRACE, Spans, attributes, traced_process

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = "what is 1 plus 2"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Spans]:
    with traced_process(monkeypatch) as received:
        yield received


@pytest.fixture
def stand(spans: Spans) -> Iterator[Stand]:
    with small_engine() as upstream, stand_with(upstream) as made:
        yield made


def ask(stand: Stand, *, stream: bool) -> tuple[int, int]:
    """Make one call in the agent's trace; return the numbers of prompt and answer tokens."""
    answer = stand.agent("task-1").chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": TEXT}],
        max_tokens=5,
        stream=stream,
        stream_options={"include_usage": True} if stream else None,
        extra_headers={"traceparent": PARENT},
    )
    usage = next(chunk.usage for chunk in answer if chunk.usage) if stream else answer.usage
    return usage.prompt_tokens, usage.completion_tokens


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_continues_the_trace_of_the_agent_with_its_sizes(
    stand: Stand, spans: Spans, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental")

    prompt, answer = ask(stand, stream=stream)
    [span] = wait_until(spans, seconds=20, what="the span arrives")

    assert (span.name, span.trace_id.hex()) == ("capture chat", TRACE)
    assert attributes(span) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": MODEL,
        "gen_ai.usage.input_tokens": prompt,
        "gen_ai.usage.output_tokens": answer,
    }
    assert TEXT.encode() not in span.SerializeToString()


def test_a_span_has_no_attributes_unless_they_are_switched_on(stand: Stand, spans: Spans) -> None:
    ask(stand, stream=False)
    [span] = wait_until(spans, seconds=20, what="the span arrives")

    assert attributes(span) == {}


def test_a_refused_call_ends_its_span_with_the_error(stand: Stand, spans: Spans) -> None:
    with pytest.raises(Exception, match="another"):
        stand.agent("task-1").chat.completions.create(
            model="another", messages=[{"role": "user", "content": TEXT}]
        )
    [span] = wait_until(spans, seconds=20, what="the span arrives")

    assert span.status.code == span.status.STATUS_CODE_ERROR

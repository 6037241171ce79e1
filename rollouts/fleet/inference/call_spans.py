"""Spans of generation requests to an inference server."""

from collections.abc import Awaitable

from rolldeck import tracing
from rollouts.fleet.engine.engine import Answer, Prompt
from runs.config.rules.inference_servers import InferenceServerSettings


async def traced(
    answers: Awaitable[list[Answer]], prompt: Prompt, settings: InferenceServerSettings
) -> list[Answer]:
    """Return the answers to a prompt, awaited in a span.

    Args:
        answers: The request, with its retries.
        prompt: The prompt.
        settings: Settings of the inference server.
    """
    model = settings.model or settings.kind
    with tracing.span(f"text_completion {model}", kind="client") as opened:
        found = await answers
        tracing.add_genai(
            opened,
            operation="text_completion",
            provider=settings.kind,
            model=model,
            input_tokens=len(prompt.tokens),
            output_tokens=sum(len(one.tokens) for one in found),
        )
        return found

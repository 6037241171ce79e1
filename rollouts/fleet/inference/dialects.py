"""Request formats of the supported kinds of inference servers.

All of them take and return tokens, because encoding text again may give other tokens than those
sampled. Stop tokens are always explicit and the server's end token is ignored, so an answer ends
as the prompt specifies. The tokens of an answer include its stop token or stop text.

Sources: https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html and
https://docs.sglang.io/basic_usage/native_api.html.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Protocol, TypeVar

import msgspec
from msgspec import Meta, Struct

from rollouts.fleet.engine.engine import (
    Answer,
    Prompt,
    PromptTooLong,
    SamplingParams,
    TokenUnknown,
    Version,
)
from rollouts.fleet.inference.contract import version_in

MOST_LOGPROB: Final = 1e-3
"""Rounding may give a certain token slightly more than 0."""
Token = Annotated[int, Meta(ge=0)]
PolicyVersions = list[tuple[int, int, Annotated[int, Meta(ge=0)]]]
"""``[epoch, step, tokens]`` for each part of an answer."""
SHOWN_CHARACTERS: Final = 500
PromptError = type[PromptTooLong] | type[TokenUnknown]
CODES: Final[dict[str, PromptError]] = {
    "context_length_exceeded": PromptTooLong,
    "token_unknown": TokenUnknown,
}
"""Error codes of OpenAI and of `rolldeck inference`."""
PARAMETERS: Final[dict[str, PromptError]] = {
    "input_tokens": PromptTooLong,
    # vLLM limits max_tokens to the room left in the context. Requests ask for at least one token,
    # so a refused value means that no room is left.
    "max_tokens": PromptTooLong,
}
"""Parameters that vLLM names."""
WORDS: Final[dict[str, PromptError]] = {
    "context": PromptTooLong,
    "maximum model length": PromptTooLong,
    "vocab": TokenUnknown,
}


class InvalidResponse(ValueError):
    """The response of a server is incomplete or inconsistent."""


class VersionUnreported(InvalidResponse):
    """The response names no version of the weights, as from a replica that was started again."""


class TokenLogprobs(Struct):
    """Log probabilities of a completion."""

    token_logprobs: list[float]


class CompletionChoice(Struct):
    """One answer of ``/v1/completions``."""

    index: int
    token_ids: list[Token]
    logprobs: TokenLogprobs
    finish_reason: str
    policy_versions: PolicyVersions | None = None


class Completion(Struct):
    """Response of ``/v1/completions``."""

    choices: list[CompletionChoice]
    model: str = ""


class ContentLogprob(Struct):
    """Log probability of a token."""

    logprob: float


class ContentLogprobs(Struct):
    """Log probabilities of an answer, by token."""

    content: list[ContentLogprob]


class Span(Struct):
    """Tokens of an answer that weights with one label sampled."""

    version: str
    start: int
    end: int


class GeneratedChoice(Struct):
    """One answer of ``/inference/v1/generate``."""

    index: int
    token_ids: list[Token]
    logprobs: ContentLogprobs
    finish_reason: str
    weight_versions: list[Span] | None = None


class Generated(Struct):
    """Response of ``/inference/v1/generate``."""

    choices: list[GeneratedChoice]
    model: str | None = None


class FinishReason(Struct):
    """Reason for which SGLang ended an answer."""

    type: str


class MetaInfo(Struct):
    """Details of an answer of SGLang."""

    output_token_logprobs: list[tuple[float, Token, str | None]]
    finish_reason: FinishReason
    policy_versions: PolicyVersions | None = None
    weight_version: str = ""


class SglangAnswer(Struct):
    """One answer of SGLang's ``/generate``."""

    meta_info: MetaInfo


Response = TypeVar("Response")
Choice = TypeVar("Choice", CompletionChoice, GeneratedChoice)


def decoded(content: bytes, kind: type[Response]) -> Response:
    """Return a response of a kind.

    Raises:
        InvalidResponse: If the content is cut off, or a field is missing or has another type.
    """
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidResponse(f"the response has another form: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        shown = content[:200].decode(errors="replace")
        raise InvalidResponse(f"the response is not JSON ({error}): {shown}") from error


def in_order(choices: Sequence[Choice]) -> list[Choice]:
    """Return answers in the order of their indices.

    Raises:
        InvalidResponse: If an index is missing or repeated.
    """
    ordered = sorted(choices, key=lambda choice: choice.index)
    indices = [choice.index for choice in ordered]
    if indices != list(range(len(ordered))):
        raise InvalidResponse(f"the answers have the indices {indices}")
    return ordered


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Properties of a response that its request determines."""

    run: str
    """Name or key of the run that trains the weights."""
    version: Version
    """Oldest version that the server may have used when the request was sent."""
    model: str = ""
    """Name of the served model or of its adapter; empty if any may answer."""
    is_labelled: bool = False
    """Whether each answer must name the version of its weights."""


class Dialect(Protocol):
    """Request format of one kind of server."""

    path: str
    """Path of the route for generation."""
    reports_versions: bool
    """Whether responses contain the version that sampled each token."""
    repeats_greedy: bool
    """Whether the server takes greedy requests for several answers."""
    reports_labels: bool
    """Whether responses contain the labels that an update gave to the weights."""
    filters_logprobs: bool
    """Whether log probabilities are taken after top-p and top-k."""
    fallback: "Dialect | None"
    """Format for servers without this route; they answer 403 or 404."""

    def body(self, prompt: Prompt, *, model: str, adapter: str = "") -> dict[str, Any]:
        """Return the request body for one prompt.

        Args:
            prompt: Tokens and sampling parameters.
            model: Name of the served model.
            adapter: Name of its adapter; empty for none.
        """

    def answers(self, content: bytes, expected: Expected) -> list[Answer]:
        """Return the answers in the order of their indices.

        Args:
            content: Body of the response.
            expected: Properties of the response that the request determines.

        Raises:
            InvalidResponse: If a field is missing or has another type, or the model or the run is
                another one.
            VersionUnreported: If an answer must name its weights and does not.
        """


class CompletionsDialect:
    """vLLM's completions with tokens as prompts and ``return_token_ids`` (since 0.10.2)."""

    path: str = "/v1/completions"
    reports_versions: bool = False
    reports_labels: bool = False
    repeats_greedy: bool = False
    filters_logprobs: bool = True
    fallback: Dialect | None = None
    max_stops: int = 4
    """Maximum number of stop texts, as in OpenAI's API. Workers cut answers at the others."""

    def body(self, prompt: Prompt, *, model: str, adapter: str = "") -> dict[str, Any]:
        sampling = prompt.sampling
        return _vllm_sampling(sampling) | {
            "model": adapter or model,
            "prompt": list(prompt.tokens),
            "n": prompt.answers if self.repeats_greedy or not sampling.is_greedy else 1,
            "stop": list(sampling.stop[: self.max_stops]),
            "return_token_ids": True,
            # Servers with --skip-tokenizer-init cannot return texts of tokens.
            "return_tokens_as_token_ids": True,
        }

    def answers(self, content: bytes, expected: Expected) -> list[Answer]:
        completion = decoded(content, Completion)
        _check_model(completion.model, expected)
        return [
            _answer(
                choice.index,
                tokens=choice.token_ids,
                logprobs=choice.logprobs.token_logprobs,
                finish=choice.finish_reason,
                versions=choice.policy_versions or _spanning(expected.version, choice.token_ids),
            )
            for choice in in_order(completion.choices)
        ]


class RolldeckDialect(CompletionsDialect):
    """`rolldeck inference`: like vLLM, with the versions of each answer."""

    reports_versions: bool = True
    repeats_greedy: bool = True
    filters_logprobs: bool = False
    max_stops: int = 16


class VllmDialect:
    """vLLM's ``/inference/v1/generate``, which labels every token with its weights.

    It needs ``--enable-scale-out``. Source: ``vllm/entrypoints/scale_out/token_in_token_out`` in
    vLLM 0.32.
    """

    path: str = "/inference/v1/generate"
    reports_versions: bool = False
    reports_labels: bool = True
    repeats_greedy: bool = False
    filters_logprobs: bool = True
    fallback: Dialect | None = CompletionsDialect()

    def body(self, prompt: Prompt, *, model: str, adapter: str = "") -> dict[str, Any]:
        sampling = prompt.sampling
        params = _vllm_sampling(sampling) | {
            "n": 1 if sampling.is_greedy else prompt.answers,
            "stop": list(sampling.stop),
            "detokenize": bool(sampling.stop),
        }
        return {
            "model": adapter or model,
            "token_ids": list(prompt.tokens),
            "sampling_params": params,
        }

    def answers(self, content: bytes, expected: Expected) -> list[Answer]:
        generated = decoded(content, Generated)
        _check_model(generated.model or "", expected)
        return [
            _answer(
                choice.index,
                tokens=choice.token_ids,
                logprobs=[token.logprob for token in choice.logprobs.content],
                finish=choice.finish_reason,
                versions=_labelled(choice, expected),
            )
            for choice in in_order(generated.choices)
        ]


class SglangDialect:
    """SGLang's native ``/generate``."""

    path: str = "/generate"
    reports_versions: bool = False
    reports_labels: bool = True
    repeats_greedy: bool = True
    filters_logprobs: bool = False
    fallback: Dialect | None = None

    def body(self, prompt: Prompt, *, model: str, adapter: str = "") -> dict[str, Any]:  # noqa: ARG002 single-model server
        sampling = prompt.sampling
        params = _sampling(sampling) | {
            "n": prompt.answers,
            "max_new_tokens": sampling.max_tokens,
            "stop": list(sampling.stop),
            "no_stop_trim": True,
        }
        body = {"input_ids": list(prompt.tokens), "sampling_params": params, "return_logprob": True}
        return body | ({"lora_path": adapter} if adapter else {})

    def answers(self, content: bytes, expected: Expected) -> list[Answer]:
        given = decoded(content, SglangAnswer | list[SglangAnswer])  # type: ignore[arg-type]
        answers = []
        for index, one in enumerate(given if isinstance(given, list) else [given]):
            about = one.meta_info
            tokens = [token for _, token, _ in about.output_token_logprobs]
            reported = version_in(about.weight_version, run=expected.run)
            if reported is None and expected.is_labelled:
                raise VersionUnreported(f"weight_version is {about.weight_version!r}")
            # The reported version is that of the last token.
            oldest = min(reported or expected.version, expected.version)
            answers.append(
                _answer(
                    index,
                    tokens=tokens,
                    logprobs=[logprob for logprob, _, _ in about.output_token_logprobs],
                    finish=about.finish_reason.type,
                    versions=about.policy_versions or _spanning(oldest, tokens),
                )
            )
        return answers


DIALECTS: Final[dict[str, Dialect]] = {
    "rolldeck": RolldeckDialect(),
    "vllm": VllmDialect(),
    "sglang": SglangDialect(),
}


def _sampling(sampling: SamplingParams) -> dict[str, Any]:
    """Return the parameters that all servers name alike."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        # Releases differ in whether 0 means all tokens; -1 means so in each.
        "top_k": sampling.top_k or -1,
        "stop_token_ids": sorted(sampling.stop_tokens),
        "ignore_eos": True,
    }


def _vllm_sampling(sampling: SamplingParams) -> dict[str, Any]:
    return _sampling(sampling) | {
        "max_tokens": sampling.max_tokens,
        "include_stop_str_in_output": True,
        "seed": sampling.seed,
        "logprobs": 0,
    }


def _check_model(model: str, expected: Expected) -> None:
    """Raise InvalidResponse for an answer of another model; an empty name is accepted."""
    if expected.model and model not in {"", expected.model}:
        raise InvalidResponse(f"the model {model!r} answered instead of {expected.model!r}")


def _spanning(version: Version, tokens: Sequence[int]) -> PolicyVersions:
    """Return one version for all tokens of an answer."""
    return [(*version, len(tokens))]


def _labelled(choice: GeneratedChoice, expected: Expected) -> PolicyVersions:
    """Return the versions that vLLM reports for an answer.

    Raises:
        InvalidResponse: If a span does not begin at the end of the previous one, or the weights
            belong to another run.
        VersionUnreported: If an answer must name its weights and does not.
    """
    spans, end, found = choice.weight_versions or [], 0, PolicyVersions()
    if expected.is_labelled and not spans and choice.token_ids:
        raise VersionUnreported("weight_versions is missing")
    for span in spans:
        if span.start != end or span.end < end:
            raise InvalidResponse(f"weight_versions has a span from {span.start} to {span.end}")
        version, end = version_in(span.version, run=expected.run), span.end
        if version is None and expected.is_labelled:
            raise VersionUnreported(f"weight_versions names {span.version!r}")
        found.append((*(version or expected.version), span.end - span.start))
    return found or _spanning(expected.version, choice.token_ids)


def _answer(
    index: int,
    *,
    tokens: Sequence[int],
    logprobs: Sequence[float],
    finish: str,
    versions: PolicyVersions,
) -> Answer:
    if len(tokens) != len(logprobs):
        raise InvalidResponse(f"{len(tokens)} tokens but {len(logprobs)} log probabilities")
    if wrong := [value for value in logprobs if not math.isfinite(value) or value > MOST_LOGPROB]:
        raise InvalidResponse(f"{wrong[0]} is not a log probability")
    if sum(count for _, _, count in versions) != len(tokens):
        raise InvalidResponse(f"{len(tokens)} tokens, but versions for {versions}")
    return Answer(
        request=0,
        index=index,
        tokens=list(tokens),
        logprobs=list(logprobs),
        versions=[(epoch, step) for epoch, step, count in versions for _ in range(count)],
        finish="stop" if finish == "stop" else "length" if finish == "length" else "cancelled",
    )


def prompt_error(text: str) -> PromptTooLong | TokenUnknown | None:
    """Return the error that the body of a 400 response describes; None if it is not the prompt."""
    try:
        body = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError):
        body = {}
    # The error is below `error`, or the body itself.
    error = body.get("error", body)
    if not isinstance(error, dict):
        error = {"message": error}
    code, parameter = error.get("code"), error.get("param")
    if isinstance(code, str):  # vLLM and SGLang send the HTTP status as a number
        kind = CODES.get(code)
    elif isinstance(parameter, str):
        kind = PARAMETERS.get(parameter)
    else:
        message = str(error.get("message", text))
        kind = next((kind for word, kind in WORDS.items() if word in message), None)
    return kind(text[:SHOWN_CHARACTERS]) if kind else None


def lacks(adapter: str, text: str) -> bool:
    """Return whether the body of a 400 or 404 response describes an adapter as not loaded."""
    return adapter in text and ("does not exist" in text or "not loaded" in text)

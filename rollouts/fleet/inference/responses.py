"""Schemas of the responses of inference servers.

Fields that workers do not read are ignored. A missing field or another type is refused with its
path, such as ``$.choices[0].token_ids[3]``.
"""

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

Token = Annotated[int, Meta(ge=0)]
PolicyVersions = list[tuple[int, int, Annotated[int, Meta(ge=0)]]]
"""``[epoch, step, tokens]`` for each part of an answer."""


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

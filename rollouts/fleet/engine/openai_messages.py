"""Schemas of the OpenAI-compatible API, with a few extensions.

Fields that are not supported are refused by name, except with a value that has no effect. Fields
of :data:`UNUSED` are ignored, so existing programs work. Extensions, as in vLLM:
`return_token_ids`, `return_tokens_as_token_ids`, `top_k`, `ignore_eos`, `stop_token_ids`,
`include_stop_str_in_output`; in each choice `token_ids`, `token_logprobs`, `prompt_token_ids`, and
`policy_versions`, ``[[epoch, step, tokens], …]`` in order.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(gt=0, le=1)]
Stop = Annotated[str, Meta(min_length=1)]
Stops = Annotated[list[Stop], Meta(max_length=16)]
TokenIds = list[Annotated[int, Meta(ge=0)]]

LogprobCount = Annotated[int, Meta(ge=0, le=1)]
"""0 and 1 are the same: log probabilities are those of the sampled tokens."""

UNUSED: Final = frozenset(
    {
        *("user", "metadata", "store", "service_tier", "safety_identifier"),
        *("prompt_cache_key", "prompt_cache_retention", "parallel_tool_calls"),
        *("cache_salt", "priority", "request_id", "rid", "log_metrics", "stream_interval"),
    }
)
"""Fields of OpenAI, vLLM and SGLang that change no answer; accepted with any value."""
NEUTRAL: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "frequency_penalty": 0,
        "presence_penalty": 0,
        "repetition_penalty": 1,
        "length_penalty": 1,
        "min_p": 0,
        "typical_p": 1,
        "min_tokens": 0,
        "min_new_tokens": 0,
        "best_of": 1,
        "top_logprobs": 0,
        "top_logprobs_num": 0,
        "logprob_start_len": -1,
        "response_format": {"type": "text"},
        "modalities": ["text"],
        "tool_choice": "none",
        "detokenize": True,
        "skip_special_tokens": True,
        "spaces_between_special_tokens": True,
        "add_generation_prompt": True,
    }
)
"""The value without effect of unsupported fields. Of others it is null, false and an empty one."""


class BaseRequest(Struct, kw_only=True):
    """Fields common to both kinds of requests."""

    model: str = ""
    temperature: Temperature | None = None
    top_p: Share | None = None
    top_k: Annotated[int, Meta(ge=-1)] | None = None
    n: Annotated[int, Meta(ge=1, le=1024)] | None = None
    stop: Stop | Stops | None = None
    stop_token_ids: TokenIds | None = None
    include_stop_str_in_output: bool = False
    """Whether the text contains the stop text; the tokens always do."""
    seed: int | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    return_token_ids: bool = False
    return_tokens_as_token_ids: bool = False
    """Whether `logprobs` have the numbers of tokens instead of their texts."""
    ignore_eos: bool = False
    """Whether to continue after the tokenizer's end token, for measurements."""


class CompletionRequest(BaseRequest, kw_only=True):
    """Body of ``POST /v1/completions``."""

    prompt: str | Annotated[list[Any], Meta(min_length=1)]
    """Text, tokens, or a list of either."""
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    logprobs: LogprobCount | None = None


class ChatRequest(BaseRequest, kw_only=True):
    """Body of ``POST /v1/chat/completions``."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    logprobs: bool | None = None


class TokenizeRequest(Struct, kw_only=True):
    """Body of ``POST /tokenize``, as of vLLM, for a chat."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    model: str = ""


class DetokenizeRequest(Struct, kw_only=True):
    """Body of ``POST /detokenize``, as of vLLM."""

    tokens: TokenIds


class Refused(ValueError):
    """The request is refused; `param` names the field."""

    def __init__(
        self, message: str, *, param: str | None = None, status: int = 400, code: str = ""
    ) -> None:
        super().__init__(message)
        self.param = param
        self.status = status
        self.code = code

    def body(self) -> dict[str, Any]:
        """Return the error in OpenAI's format."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        code = self.code or self.status
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": code}}


def check_fields(
    raw: Mapping[str, Any], kind: type[Struct], *, path: str = "", ignored: Collection[str] = ()
) -> None:
    """Check that a request has only fields that are supported, or without effect.

    Args:
        raw: The decoded body.
        kind: Its schema.
        path: Location of `raw`, with a dot at its end.
        ignored: Fields whose own fields are not checked.

    Raises:
        Refused: With the first other field.
    """
    schema = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in raw.items():
        inner = schema.get(name)
        if name in schema:
            if isinstance(inner, type) and issubclass(inner, Struct) and name not in ignored:
                check_fields(value, inner, path=f"{path}{name}.")
        elif name not in UNUSED and not _is_neutral(name, value):
            raise Refused(f"{path}{name} is not supported", param=f"{path}{name}")


def _is_neutral(name: str, value: Any) -> bool:
    if name in NEUTRAL:
        return value == NEUTRAL[name]
    # By identity: 0 has an effect in some fields.
    return value is False or (isinstance(value, str | list | dict) and not value)

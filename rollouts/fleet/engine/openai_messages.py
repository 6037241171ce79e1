"""Schemas of the OpenAI-compatible API, with a few extensions.

Other fields are refused by name, unless they have no effect; see
:mod:`rollouts.fleet.engine.openai_api`. Extensions, as in vLLM: `return_token_ids`,
`return_tokens_as_token_ids`, `top_k`, `ignore_eos`, `stop_token_ids`,
`include_stop_str_in_output`; in each choice `token_ids`, `token_logprobs`, `prompt_token_ids`, and
`policy_versions`, ``[[epoch, step, tokens], …]`` in order.
"""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rollouts.fleet.engine.engine import Version

Temperature = Annotated[float, Meta(ge=0, le=2)]
Share = Annotated[float, Meta(gt=0, le=1)]
Stop = Annotated[str, Meta(min_length=1)]
Stops = Annotated[list[Stop], Meta(max_length=16)]
TokenIds = list[Annotated[int, Meta(ge=0)]]

LogprobCount = Annotated[int, Meta(ge=0, le=1)]
"""0 and 1 are the same: log probabilities are those of the sampled tokens."""
RUN: Final = "run"
"""Parameter of the weights route, and field of ``/health``, with the run."""


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


def in_use(run: str, version: Version) -> str:
    """Return why the server refuses another run than `run`."""
    return (
        f"the server holds version {version[0]}/{version[1]} of run {run!r}, and a server serves "
        "one run at a time. Use another server, or restart this one after that run has ended"
    )

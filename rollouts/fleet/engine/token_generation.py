"""Messages of vLLM's ``POST /inference/v1/generate``: tokens in, tokens and log probabilities out.

The trainers' client of verifiers (`TrainClient`) generates through this route. Extensions in each
choice, as in the other routes: `policy_versions`, ``[[epoch, step, tokens], …]`` in order.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from rollouts.fleet.engine.engine import Version
from rollouts.fleet.engine.openai_messages import (
    LogprobCount,
    Share,
    Stop,
    Stops,
    Temperature,
    TokenIds,
)

ROUTE: Final = "/inference/v1/generate"


class TokenSampling(Struct, frozen=True, kw_only=True):
    """The supported part of vLLM's ``sampling_params``."""

    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Without it, an answer continues to the end of the context."""
    temperature: Temperature = 1.0
    top_p: Share = 1.0
    top_k: Annotated[int, Meta(ge=-1)] = 0
    n: Annotated[int, Meta(ge=1, le=1024)] = 1
    stop: Stop | Stops | None = None
    stop_token_ids: TokenIds | None = None
    include_stop_str_in_output: bool = False
    seed: int | None = None
    ignore_eos: bool = False
    extra_args: dict[str, Any] | None = None
    logprobs: LogprobCount | None = None
    detokenize: bool = True
    skip_special_tokens: bool = True
    spaces_between_special_tokens: bool = True
    """Without effect, as the two before: the response has no text."""


class TokenRequest(Struct, frozen=True, kw_only=True):
    """Body of the request."""

    token_ids: Annotated[TokenIds, Meta(min_length=1)]
    model: str = ""
    sampling_params: TokenSampling = TokenSampling()


def choice_of(
    index: int,
    *,
    tokens: Sequence[int],
    logprobs: Sequence[float],
    versions: Sequence[Version],
    finish: str,
) -> dict[str, Any]:
    """Return an answer as a choice of the response."""
    pairs = zip(tokens, logprobs, strict=True)
    content = [
        {"token": f"token_id:{token}", "logprob": logprob, "top_logprobs": []}
        for token, logprob in pairs
    ]
    return {
        "index": index,
        "token_ids": list(tokens),
        "logprobs": {"content": content},
        "finish_reason": finish,
        "policy_versions": [[*version, len(list(same))] for version, same in groupby(versions)],
    }


def response_of(identity: str, choices: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the body of a response."""
    return {"request_id": identity, "choices": list(choices), "prompt_logprobs": None}

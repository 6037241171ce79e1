"""SGLang's native ``POST /generate``: tokens in, tokens and log probabilities out.

Source: https://docs.sglang.io/basic_usage/native_api.html.
"""

import secrets
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from rollouts.fleet.engine.answers import Choice, Shape
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.openai_messages import (
    CompletionRequest,
    Refused,
    Share,
    Stop,
    Stops,
    Temperature,
    TokenIds,
)
from rollouts.fleet.engine.request_bodies import decoded
from rollouts.fleet.engine.tokenizers import Tokenizer

DEFAULT_TOKENS: Final = 128
"""SGLang's default."""


class SamplingRequest(Struct, frozen=True, kw_only=True):
    """The supported part of SGLang's ``sampling_params``."""

    max_new_tokens: Annotated[int, Meta(ge=1)] | None = None
    temperature: Temperature = 1.0
    top_p: Share = 1.0
    top_k: Annotated[int, Meta(ge=-1)] = -1
    n: Annotated[int, Meta(ge=1, le=1024)] = 1
    stop: Stop | Stops | None = None
    stop_token_ids: TokenIds | None = None
    no_stop_trim: bool = False
    ignore_eos: bool = False
    sampling_seed: int | None = None


class GenerateRequest(Struct, kw_only=True):
    """Body of ``POST /generate``."""

    text: str | Annotated[list[str], Meta(min_length=1)] | None = None
    input_ids: Annotated[list[Any], Meta(min_length=1)] | None = None
    """Tokens of one prompt, or of several."""
    sampling_params: SamplingRequest = SamplingRequest()
    return_logprob: bool = False


class SglangApi:
    """SGLang's format of :class:`rollouts.fleet.engine.generate_api.GenerateApi`."""

    def __init__(self, api: OpenAiApi, tokenizer: Tokenizer) -> None:
        """Set up the format.

        Args:
            api: API that generates.
            tokenizer: Tokenizer of its model.
        """
        self._api, self._tokenizer = api, tokenizer

    async def generate(self, request: Request, raw: dict[str, Any]) -> Response:
        """Return the response to a request with these fields.

        Raises:
            Refused: If a field is invalid or not supported, or no answer can be generated.
        """
        body = decoded(raw, GenerateRequest)
        prompts, is_single = self._prompts(body)
        params = body.sampling_params
        shape = Shape(
            is_chat=False,
            identity=secrets.token_hex(16),
            model="",
            with_logprobs=body.return_logprob,
            with_token_ids=True,
            prompts=prompts,
            answers_each=params.n,
            tokenizer=self._tokenizer,
        )
        completion = CompletionRequest(
            prompt="",
            temperature=params.temperature,
            top_p=params.top_p,
            top_k=params.top_k,
            n=params.n,
            stop=params.stop,
            stop_token_ids=params.stop_token_ids,
            include_stop_str_in_output=params.no_stop_trim,
            seed=params.sampling_seed,
            ignore_eos=params.ignore_eos,
        )
        most = params.max_new_tokens or DEFAULT_TOKENS
        choices = await self._api.choices(request, shape, completion, most)
        answers = [_answer(choice, shape) for choice in choices]
        return JSONResponse(answers[0] if is_single and params.n == 1 else answers)

    def _prompts(self, body: GenerateRequest) -> tuple[list[list[int]], bool]:
        """Return the prompts, and whether the request has a single prompt outside a list."""
        given: Any = body.text if body.input_ids is None else body.input_ids
        if given is None:
            raise Refused("input_ids, text, prompt or prompts is required", param="input_ids")
        is_single = isinstance(given, str) or isinstance(given[0], int)
        prompts = [given] if is_single else given
        for prompt in prompts:
            is_tokens = isinstance(prompt, list) and all(type(one) is int for one in prompt)
            if not (isinstance(prompt, str) or (is_tokens and min(prompt, default=-1) >= 0)):
                raise Refused(
                    "must be a list of tokens, or a list of such lists", param="input_ids"
                )
        return [self._api.tokens(prompt) for prompt in prompts], is_single


def _answer(choice: Choice, shape: Shape) -> dict[str, Any]:
    last = choice.tokens[-1] if choice.tokens else None
    reason: dict[str, Any] = {"type": choice.finish}
    reason |= (
        {"matched": choice.stream.stopped_by or last}
        if choice.finish == "stop"
        else {"length": len(choice.tokens)}
    )
    prompt = shape.prompts[choice.index // shape.answers_each]
    epoch, step, _ = choice.policy_versions[-1]
    about: dict[str, Any] = {
        "id": f"{shape.identity}-{choice.index}",
        "finish_reason": reason,
        "prompt_tokens": len(prompt),
        "completion_tokens": len(choice.tokens),
        "weight_version": f"{epoch}/{step}",
        "policy_versions": choice.policy_versions,
    }
    if shape.with_logprobs:
        pairs = zip(choice.logprobs, choice.tokens, strict=True)
        about["output_token_logprobs"] = [[logprob, token, None] for logprob, token in pairs]
    return {"text": choice.stream.text, "output_ids": choice.tokens, "meta_info": about}

"""``POST /generate`` as of SGLang, of Atropos' vLLM server and of TRL's vLLM server.

The body determines the format: `prompts` is TRL's, `prompt` is vLLM's, `input_ids` and `text` are
SGLang's. Stock Atropos environments use them with the ``server_type`` of that name. Sources:
``example_trainer/vllm_api_server.py`` of atroposlib 0.4.0, ``trl/scripts/vllm_serve.py`` of TRL
0.21, whose later releases add `prompt_ids` and `logprobs` to the response.
"""

import secrets
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rollouts.fleet.engine.answers import Choice, Shape
from rollouts.fleet.engine.openai_api import DEFAULT_TOKENS, OpenAiApi
from rollouts.fleet.engine.openai_messages import BaseRequest, LogprobCount, Refused, TokenIds
from rollouts.fleet.engine.request_bodies import decoded, read_json
from rollouts.fleet.engine.sglang_api import SglangApi
from rollouts.fleet.engine.tokenizers import Tokenizer


class PromptTokens(Struct, forbid_unknown_fields=True):
    """Tokens of a prompt of vLLM."""

    prompt_token_ids: TokenIds


class VllmRequest(BaseRequest, kw_only=True):
    """Body in the format of Atropos' vLLM server."""

    prompt: str | PromptTokens
    max_tokens: Annotated[int, Meta(ge=1)] = DEFAULT_TOKENS
    logprobs: LogprobCount | None = None
    prompt_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    """Number of the most likely tokens to return for each place of the prompt."""


class TrlRequest(BaseRequest, kw_only=True):
    """Body in the format of TRL's vLLM server."""

    prompts: Annotated[list[str | TokenIds], Meta(min_length=1)]
    max_tokens: Annotated[int, Meta(ge=1)] = DEFAULT_TOKENS
    logprobs: LogprobCount | None = None


class GenerateApi:
    """A route in addition to the OpenAI-compatible ones, for the same engine."""

    def __init__(self, api: OpenAiApi, tokenizer: Tokenizer) -> None:
        """Set up the route.

        Args:
            api: API that generates.
            tokenizer: Tokenizer of its model.
        """
        self._api, self._tokenizer = api, tokenizer
        self._sglang = SglangApi(api, tokenizer)

    @property
    def routes(self) -> list[Route]:
        """Routes to add to the application; TRL's client sends the slash at the end."""
        return [
            Route(path, self._generate, methods=["POST"]) for path in ("/generate", "/generate/")
        ]

    async def _generate(self, request: Request) -> Response:
        raw = await read_json(request)
        if "prompts" in raw:
            return await self._trl(request, decoded(raw, TrlRequest))
        if "prompt" in raw:
            return await self._vllm(request, decoded(raw, VllmRequest))
        return await self._sglang.generate(request, raw)

    async def _vllm(self, request: Request, body: VllmRequest) -> Response:
        given = body.prompt
        prompt = self._api.tokens(given if isinstance(given, str) else given.prompt_token_ids)
        choices = await self._choices(request, body, [prompt], body.max_tokens)
        shown: dict[str, Any] = {
            "text": [choice.stream.text for choice in choices],
            "prompt": self._tokenizer.decode_with_special(prompt),
            "finish_reasons": [choice.finish for choice in choices],
            "policy_versions": [choice.policy_versions for choice in choices],
        }
        if body.logprobs is not None:
            shown["logprobs"] = [
                [
                    [{str(token): logprob}]
                    for token, logprob in zip(choice.tokens, choice.logprobs, strict=True)
                ]
                for choice in choices
            ]
            shown["prompt_token_ids"] = prompt
            shown["token_ids"] = [choice.tokens for choice in choices]
        if body.prompt_logprobs is not None:
            found = await self._api.prompt_logprobs(prompt, likeliest=body.prompt_logprobs)
            # As of vLLM: no token predicts the first one.
            shown["prompt_logprobs"] = [None, *found]
        return JSONResponse(shown)

    async def _trl(self, request: Request, body: TrlRequest) -> Response:
        prompts = [self._api.tokens(prompt, param="prompts") for prompt in body.prompts]
        try:
            choices = await self._choices(request, body, prompts, body.max_tokens)
        except Refused as refusal:
            if refusal.param == "prompt":
                refusal.param = "prompts"
            raise
        return JSONResponse(
            {
                "prompt_ids": prompts,
                "completion_ids": [choice.tokens for choice in choices],
                "logprobs": [choice.logprobs for choice in choices],
                "policy_versions": [choice.policy_versions for choice in choices],
            }
        )

    async def _choices(
        self, request: Request, body: BaseRequest, prompts: Sequence[list[int]], most: int
    ) -> list[Choice]:
        self._api.check_model(body.model)
        if body.stream:
            raise Refused("stream is not supported", param="stream")
        shape = Shape(
            is_chat=False,
            identity=secrets.token_hex(16),
            model=body.model,
            with_logprobs=True,
            with_token_ids=True,
            prompts=prompts,
            answers_each=body.n or 1,
            tokenizer=self._tokenizer,
        )
        return await self._api.choices(request, shape, body, most)

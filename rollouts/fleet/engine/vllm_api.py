"""vLLM's ``POST /inference/v1/generate`` in addition to the OpenAI-compatible routes."""

import secrets

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rollouts.fleet.engine.answers import Shape
from rollouts.fleet.engine.openai_api import OpenAiApi
from rollouts.fleet.engine.openai_messages import CompletionRequest, Refused
from rollouts.fleet.engine.request_bodies import read_body
from rollouts.fleet.engine.token_generation import ROUTE, TokenRequest, choice_of, response_of
from rollouts.fleet.engine.tokenizers import Tokenizer


class VllmApi:
    """The route for the same engine."""

    def __init__(self, api: OpenAiApi, tokenizer: Tokenizer, *, context: int) -> None:
        """Set up the route.

        Args:
            api: API that generates.
            tokenizer: Tokenizer of its model.
            context: Maximum length of a prompt and its answer together.
        """
        self._api, self._tokenizer, self._context = api, tokenizer, context

    @property
    def routes(self) -> list[Route]:
        """Routes to add to the application."""
        return [Route(ROUTE, self._generate, methods=["POST"])]

    async def _generate(self, request: Request) -> Response:
        body = await read_body(request, TokenRequest)
        try:
            return await self._answer(request, body)
        except Refused as refusal:
            if refusal.param == "prompt":
                refusal.param = "token_ids"
            raise

    async def _answer(self, request: Request, body: TokenRequest) -> Response:
        self._api.check_model(body.model)
        params = body.sampling_params
        shape = Shape(
            is_chat=False,
            identity=f"generate-{secrets.token_hex(12)}",
            model=body.model,
            with_logprobs=True,
            with_token_ids=True,
            prompts=[self._api.tokens(body.token_ids)],
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
            include_stop_str_in_output=params.include_stop_str_in_output,
            seed=params.seed,
            ignore_eos=params.ignore_eos,
        )
        most = params.max_tokens or self._context
        choices = [
            choice_of(
                choice.index,
                tokens=choice.tokens,
                logprobs=choice.logprobs,
                versions=choice.versions,
                finish=choice.finish,
            )
            for choice in await self._api.choices(request, shape, completion, most)
        ]
        return JSONResponse(response_of(shape.identity, choices))

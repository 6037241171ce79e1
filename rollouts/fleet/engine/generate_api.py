"""Routes that take tokens: ``POST /generate``, and vLLM's ``POST /inference/v1/generate``.

The body of ``/generate`` determines its format: `prompts` is that of TRL's vLLM server, `prompt`
that of Atropos' vLLM server, `input_ids` and `text` are SGLang's. Stock Atropos environments use
them with the ``server_type`` of that name. Sources: ``example_trainer/vllm_api_server.py`` of
atroposlib 0.4.0; ``trl/scripts/vllm_serve.py`` of TRL 0.21, whose later releases add `prompt_ids`
and `logprobs` to the response; https://docs.sglang.io/basic_usage/native_api.html.

The trainers' client of verifiers (`TrainClient`) generates through ``/inference/v1/generate``. Each
choice has `policy_versions`, ``[[epoch, step, tokens], …]`` in order, as in the other routes.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rollouts.fleet.engine.answers import Choice, Shape
from rollouts.fleet.engine.engine import Version
from rollouts.fleet.engine.openai_api import (
    DEFAULT_TOKENS,
    OpenAiApi,
    decoded,
    read_body,
    read_json,
)
from rollouts.fleet.engine.openai_messages import (
    BaseRequest,
    CompletionRequest,
    LogprobCount,
    Refused,
    Share,
    Stop,
    Stops,
    Temperature,
    TokenIds,
)
from rollouts.fleet.engine.tokenizers import Tokenizer

ROUTE: Final = "/inference/v1/generate"
SGLANG_TOKENS: Final = 128
"""SGLang's default."""


class Sampling(Struct, frozen=True, kw_only=True):
    """The supported part of ``sampling_params``, common to vLLM and SGLang."""

    temperature: Temperature = 1.0
    top_p: Share = 1.0
    top_k: Annotated[int, Meta(ge=-1)] = -1
    n: Annotated[int, Meta(ge=1, le=1024)] = 1
    stop: Stop | Stops | None = None
    stop_token_ids: TokenIds | None = None
    ignore_eos: bool = False


class TokenSampling(Sampling, frozen=True, kw_only=True):
    """vLLM's ``sampling_params``."""

    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    """Without it, an answer continues to the end of the context."""
    include_stop_str_in_output: bool = False
    seed: int | None = None
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
    """Return an answer as a choice of the response to a :class:`TokenRequest`."""
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
    """Return the body of the response."""
    return {"request_id": identity, "choices": list(choices), "prompt_logprobs": None}


class SglangSampling(Sampling, frozen=True, kw_only=True):
    """SGLang's ``sampling_params``."""

    max_tokens: Annotated[int, Meta(ge=1)] | None = field(default=None, name="max_new_tokens")
    include_stop_str_in_output: bool = field(default=False, name="no_stop_trim")
    seed: int | None = field(default=None, name="sampling_seed")


def completion_of(params: TokenSampling | SglangSampling) -> CompletionRequest:
    """Return the parameters as those of a completion."""
    return CompletionRequest(
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


class GenerateRequest(Struct, kw_only=True):
    """Body of ``POST /generate``."""

    text: str | Annotated[list[str], Meta(min_length=1)] | None = None
    input_ids: Annotated[list[Any], Meta(min_length=1)] | None = None
    """Tokens of one prompt, or of several."""
    sampling_params: SglangSampling = SglangSampling()
    return_logprob: bool = False


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
    """Routes in addition to the OpenAI-compatible ones, for the same engine."""

    def __init__(self, api: OpenAiApi, tokenizer: Tokenizer, *, context: int) -> None:
        self._api, self._tokenizer, self._context = api, tokenizer, context

    @property
    def routes(self) -> list[Route]:
        """Routes to add to the application; TRL's client sends the slash at the end."""
        return [
            Route("/generate", self._generate, methods=["POST"]),
            Route("/generate/", self._generate, methods=["POST"]),
            Route(ROUTE, self._generate_tokens, methods=["POST"]),
        ]

    async def _generate(self, request: Request) -> Response:
        raw = await read_json(request)
        if "prompts" in raw:
            return await self._trl(request, decoded(raw, TrlRequest))
        if "prompt" in raw:
            return await self._vllm(request, decoded(raw, VllmRequest))
        return await self.sglang(request, raw)

    async def _generate_tokens(self, request: Request) -> Response:
        body = await read_body(request, TokenRequest)
        params = body.sampling_params
        self._api.check_model(body.model)
        with _prompt_named("token_ids"):
            shape = self._shape([self._api.tokens(body.token_ids)], params.n, model=body.model)
            most = params.max_tokens or self._context
            choices = await self._api.choices(request, shape, completion_of(params), most)
        shown = [
            choice_of(
                choice.index,
                tokens=choice.tokens,
                logprobs=choice.logprobs,
                versions=choice.versions,
                finish=choice.finish,
            )
            for choice in choices
        ]
        return JSONResponse(response_of(f"generate-{shape.identity}", shown))

    async def sglang(self, request: Request, raw: dict[str, Any]) -> Response:
        """Return the response to a request in SGLang's format.

        Raises:
            Refused: If a field is invalid or not supported, or no answer can be generated.
        """
        body = decoded(raw, GenerateRequest)
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
        params = body.sampling_params
        shape = self._shape([self._api.tokens(prompt) for prompt in prompts], params.n)
        most = params.max_tokens or SGLANG_TOKENS
        choices = await self._api.choices(request, shape, completion_of(params), most)
        answers = [
            _sglang_answer(choice, shape, with_logprobs=body.return_logprob) for choice in choices
        ]
        return JSONResponse(answers[0] if is_single and params.n == 1 else answers)

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
        with _prompt_named("prompts"):
            prompts = [self._api.tokens(prompt) for prompt in body.prompts]
            choices = await self._choices(request, body, prompts, body.max_tokens)
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
        shape = self._shape(prompts, body.n or 1, model=body.model)
        return await self._api.choices(request, shape, body, most)

    def _shape(self, prompts: Sequence[list[int]], answers_each: int, *, model: str = "") -> Shape:
        return Shape(
            is_chat=False,
            identity=secrets.token_hex(16),
            model=model,
            with_logprobs=True,
            with_token_ids=True,
            prompts=prompts,
            answers_each=answers_each,
            tokenizer=self._tokenizer,
        )


@contextmanager
def _prompt_named(field: str) -> Iterator[None]:
    """Name the prompt in a refusal as the format of the request does."""
    try:
        yield
    except Refused as refusal:
        if refusal.param == "prompt":
            refusal.param = field
        raise


def _sglang_answer(choice: Choice, shape: Shape, *, with_logprobs: bool) -> dict[str, Any]:
    last = choice.tokens[-1] if choice.tokens else None
    reason: dict[str, Any] = {"type": choice.finish}
    reason |= (
        {"matched": choice.stream.stopped_by or last}
        if choice.finish == "stop"
        else {"length": len(choice.tokens)}
    )
    epoch, step, _ = choice.policy_versions[-1]
    about: dict[str, Any] = {
        "id": f"{shape.identity}-{choice.index}",
        "finish_reason": reason,
        "prompt_tokens": len(shape.prompts[choice.index // shape.answers_each]),
        "completion_tokens": len(choice.tokens),
        "weight_version": f"{epoch}/{step}",
        "policy_versions": choice.policy_versions,
    }
    if with_logprobs:
        pairs = zip(choice.logprobs, choice.tokens, strict=True)
        about["output_token_logprobs"] = [[logprob, token, None] for logprob, token in pairs]
    return {"text": choice.stream.text, "output_ids": choice.tokens, "meta_info": about}

"""Request formats of the supported kinds of inference servers.

All of them take and return tokens, because encoding text again may give other tokens than those
sampled. Stop tokens are always explicit and the server's end token is ignored, so an answer ends
as the prompt specifies. The tokens of an answer include its stop token or stop text.

Sources: https://docs.vllm.ai/en/stable/serving/openai_compatible_server.html and
https://docs.sglang.io/basic_usage/native_api.html.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from rollouts.fleet.engine.engine import Answer, Prompt, Version
from rollouts.fleet.inference.labels import version_in


class InvalidResponse(ValueError):
    """The response of a server is incomplete or inconsistent."""


class Dialect(Protocol):
    """Request format of one kind of server."""

    path: str
    """Path of the route for generation."""
    reports_versions: bool
    """Whether responses contain the version that sampled each token."""
    repeats_greedy: bool
    """Whether the server takes greedy requests for several answers."""
    filters_logprobs: bool
    """Whether log probabilities are taken after top-p and top-k."""
    fallback: "Dialect | None"
    """Format for servers without this route; they answer 403 or 404."""

    def body(self, prompt: Prompt, *, model: str) -> dict[str, Any]:
        """Return the request body for one prompt."""

    def answers(self, body: Any, *, version: Version, run: str) -> list[Answer]:
        """Return the answers in the order of their indices.

        Args:
            body: The decoded JSON response.
            version: Version for tokens without one in the response.
            run: Name or key of the run that trains the weights.

        Raises:
            InvalidResponse: If a field is missing, or the weights belong to another run.
        """


class CompletionsDialect:
    """vLLM's completions with tokens as prompts and ``return_token_ids`` (since 0.10.2)."""

    path: str = "/v1/completions"
    reports_versions: bool = False
    repeats_greedy: bool = False
    filters_logprobs: bool = True
    fallback: Dialect | None = None
    max_stops: int = 4
    """Maximum number of stop texts, as in OpenAI's API. Workers cut answers at the others."""

    def body(self, prompt: Prompt, *, model: str) -> dict[str, Any]:
        """Return the request body for one prompt."""
        sampling = prompt.sampling
        return {
            "model": model,
            "prompt": list(prompt.tokens),
            "n": prompt.answers if self.repeats_greedy or not sampling.is_greedy else 1,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            # Releases differ in whether 0 means all tokens; -1 means so in each.
            "top_k": sampling.top_k or -1,
            "stop_token_ids": sorted(sampling.stop_tokens),
            "stop": list(sampling.stop[: self.max_stops]),
            "include_stop_str_in_output": True,
            "ignore_eos": True,
            "seed": sampling.seed,
            "logprobs": 0,
            "return_token_ids": True,
            # Servers with --skip-tokenizer-init cannot return texts of tokens.
            "return_tokens_as_token_ids": True,
        }

    def answers(self, body: Any, *, version: Version, run: str) -> list[Answer]:  # noqa: ARG002 no labels
        """Return the answers in the order of their indices; see :class:`Dialect`."""
        try:
            choices = sorted(body["choices"], key=lambda choice: choice["index"])
            return [
                _answer(
                    index,
                    tokens=choice["token_ids"],
                    logprobs=choice["logprobs"]["token_logprobs"],
                    finish=choice["finish_reason"],
                    versions=choice.get("policy_versions"),
                    version=version,
                )
                for index, choice in enumerate(choices)
            ]
        except (KeyError, TypeError) as error:
            raise InvalidResponse(f"the completion lacks the field {error}") from error


class RolldeckDialect(CompletionsDialect):
    """`rolldeck serve`: like vLLM, with the versions of each answer."""

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
    repeats_greedy: bool = False
    filters_logprobs: bool = True
    fallback: Dialect | None = CompletionsDialect()

    def body(self, prompt: Prompt, *, model: str) -> dict[str, Any]:
        """Return the request body for one prompt."""
        sampling = prompt.sampling
        params: dict[str, Any] = {
            "n": 1 if sampling.is_greedy else prompt.answers,
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "stop_token_ids": sorted(sampling.stop_tokens),
            "stop": list(sampling.stop),
            "include_stop_str_in_output": True,
            "ignore_eos": True,
            "seed": sampling.seed,
            "logprobs": 0,
            "detokenize": bool(sampling.stop),
        }
        return {"model": model, "token_ids": list(prompt.tokens), "sampling_params": params}

    def answers(self, body: Any, *, version: Version, run: str) -> list[Answer]:
        """Return the answers in the order of their indices; see :class:`Dialect`."""
        try:
            choices = sorted(body["choices"], key=lambda choice: choice["index"])
            return [
                _answer(
                    index,
                    tokens=choice["token_ids"],
                    logprobs=[token["logprob"] for token in choice["logprobs"]["content"]],
                    finish=choice["finish_reason"],
                    versions=[
                        (*(version_in(span["version"], run=run) or version), _length_of(span))
                        for span in choice.get("weight_versions") or []
                    ],
                    version=version,
                )
                for index, choice in enumerate(choices)
            ]
        except (KeyError, TypeError) as error:
            raise InvalidResponse(f"the response of {self.path} lacks {error}") from error


class SglangDialect:
    """SGLang's native ``/generate``."""

    path: str = "/generate"
    reports_versions: bool = False
    repeats_greedy: bool = True
    filters_logprobs: bool = False
    fallback: Dialect | None = None

    def body(self, prompt: Prompt, *, model: str) -> dict[str, Any]:  # noqa: ARG002 single-model server
        """Return the request body for one prompt."""
        sampling = prompt.sampling
        params: dict[str, Any] = {
            "n": prompt.answers,
            "max_new_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k or -1,
            "stop_token_ids": sorted(sampling.stop_tokens),
            "stop": list(sampling.stop),
            "no_stop_trim": True,
            "ignore_eos": True,
        }
        return {"input_ids": list(prompt.tokens), "sampling_params": params, "return_logprob": True}

    def answers(self, body: Any, *, version: Version, run: str) -> list[Answer]:  # noqa: ARG002 no labels
        """Return the answers in the order of their indices; see :class:`Dialect`."""
        given = body if isinstance(body, list) else [body]
        try:
            return [self._one(index, one["meta_info"], version) for index, one in enumerate(given)]
        except (KeyError, TypeError, IndexError) as error:
            raise InvalidResponse(f"the response of /generate lacks {error}") from error

    def _one(self, index: int, about: dict[str, Any], version: Version) -> Answer:
        pairs = about["output_token_logprobs"]
        return _answer(
            index,
            tokens=[pair[1] for pair in pairs],
            logprobs=[pair[0] for pair in pairs],
            finish=about["finish_reason"]["type"],
            versions=about.get("policy_versions"),
            version=version,
        )


DIALECTS: Final[dict[str, Dialect]] = {
    "rolldeck": RolldeckDialect(),
    "vllm": VllmDialect(),
    "sglang": SglangDialect(),
}


def _length_of(span: Mapping[str, int]) -> int:
    return span["end"] - span["start"]


def _answer(
    index: int,
    *,
    tokens: Sequence[int],
    logprobs: Sequence[float],
    finish: str,
    versions: Sequence[Sequence[int]] | None,
    version: Version,
) -> Answer:
    if len(tokens) != len(logprobs):
        raise InvalidResponse(f"{len(tokens)} tokens but {len(logprobs)} log probabilities")
    spans = versions or [[*version, len(tokens)]]
    if sum(count for _, _, count in spans) != len(tokens):
        raise InvalidResponse(f"{len(tokens)} tokens, but versions for {spans}")
    return Answer(
        request=0,
        index=index,
        tokens=list(tokens),
        logprobs=list(logprobs),
        versions=[(epoch, step) for epoch, step, count in spans for _ in range(count)],
        finish="stop" if finish == "stop" else "length" if finish == "length" else "cancelled",
    )

"""Rewards from a judge: a model behind the OpenAI protocol."""

import os
import re
import time
from typing import Any, Final

import httpx
import msgspec

from rollouts.fleet.rewards.answers import Answered, RewardFailed, RewardUnusable
from rollouts.tasks.rules.dataset_config import RewardConfig, options_of
from runs.config.rules.servers import (
    INFERENCE_SERVERS,
    InvalidInferenceServers,
    parse_inference_servers,
)

PATH: Final = "/v1/chat/completions"
NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
RETRIED: Final = frozenset({429, 502, 503, 504})
FIRST_WAIT_SECONDS, MOST_WAIT_SECONDS = 0.25, 4.0
MOST_TOKENS: Final = 1024


class Judge:
    """Client of a judge; thread-safe. The last number of its answer is the reward."""

    def __init__(self, config: RewardConfig, *, place: int) -> None:
        """Look the server up.

        Raises:
            RewardUnusable: If this machine has no such server.
        """
        self._options, self._seconds = options_of(config), config.limit_seconds
        name = self._options.server
        try:
            known = parse_inference_servers(os.environ.get(INFERENCE_SERVERS, ""))
        except InvalidInferenceServers as error:
            raise RewardUnusable("environment_failed", str(error)) from error
        if name not in known:
            raise RewardUnusable(
                "environment_unknown",
                f"rewards[{place}].options.server: {name!r} is not in this machine's "
                f"{INFERENCE_SERVERS}; known: {', '.join(sorted(known)) or 'none'}",
            )
        server = known[name]
        self._model = server.model or "default"
        headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
        self._http = httpx.Client(base_url=server.url, headers=headers)

    def score(self, answered: Answered) -> float:
        """Return the reward of an answer, from 0 to 1.

        Raises:
            RewardFailed: If the judge does not answer in time or answers without a number.
        """
        text = self._options.prompt
        for name in ("prompt", "answer", "response"):
            text = text.replace(f"{{{name}}}", getattr(answered, name))
        content = self._answer(text)
        numbers = NUMBER.findall(content)
        if not numbers:
            raise RewardFailed("reward_invalid", f"answered without a number: {content[-200:]!r}")
        return min(1.0, max(0.0, float(numbers[-1]) / self._options.highest))

    def close(self) -> None:
        """Close the connections; calls in progress fail."""
        self._http.close()

    def _answer(self, text: str) -> str:
        """Return the judge's answer; busy and unreachable servers are called again."""
        deadline, wait = time.monotonic() + self._seconds, FIRST_WAIT_SECONDS
        problem = "no answer"
        while (left := deadline - time.monotonic()) > 0:
            try:
                answer = self._http.post(PATH, json=self._body(text), timeout=left)
            except httpx.TimeoutException:
                break
            except (httpx.HTTPError, RuntimeError) as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if answer.status_code not in RETRIED:
                    return _content(answer)
                problem = f"HTTP {answer.status_code}"
            time.sleep(max(0.0, min(wait, deadline - time.monotonic())))
            wait = min(2 * wait, MOST_WAIT_SECONDS)
        message = f"did not answer within {self._seconds:g} s ({problem})"
        raise RewardFailed("reward_timeout", message)

    def _body(self, text: str) -> dict[str, Any]:
        return {
            "model": self._model,
            "messages": [{"role": "user", "content": text}],
            "temperature": 0,
            "max_tokens": MOST_TOKENS,
        }


class _Message(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    message: _Message


class _Completion(msgspec.Struct):
    choices: list[_Choice]


def _content(answer: httpx.Response) -> str:
    if answer.status_code != 200:
        raise RewardFailed("reward_failed", f"HTTP {answer.status_code}: {answer.text[:300]}")
    try:
        completion = msgspec.json.decode(answer.content, type=_Completion)
        return completion.choices[0].message.content or ""
    except (msgspec.DecodeError, IndexError) as error:
        raise RewardFailed("reward_failed", f"not a chat completion: {error}") from error

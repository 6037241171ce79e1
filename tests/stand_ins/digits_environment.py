"""The requests of `examples/atropos_env.py`, without its heavy imports.

They equal the requests of the original in `tests/contract/atropos_env_0_4_0.json`.
"""

import threading
from typing import Any, NamedTuple

import httpx

from rollouts.fleet.engine.tokenizers import Tokenizer

GROUP, MOST_TOKENS = 8, 12
PAUSE_ABOVE = 12
"""Groups in the queue; the trainer of the test takes eight at a time."""


class Generated(NamedTuple):
    """Policy version and mean score of one pushed group."""

    version: int
    """Policy version that generated the group, as reported by the inference server."""
    mean_score: float


class DigitsEnvironment(threading.Thread):
    """Environment that scores answers by their share of digits and pushes groups until closed."""

    def __init__(self, *, inference: str, rollout_server: str, tokenizer: Tokenizer) -> None:
        """Connect to the two URLs that an Atropos environment takes."""
        super().__init__(daemon=True)
        self._inference, self._rollout_server = inference, rollout_server
        self._tokenizer = tokenizer
        self._stop_asked = threading.Event()
        self.pushed: list[Generated] = []
        self.error = ""

    def run(self) -> None:
        try:
            with httpx.Client(timeout=120) as http:
                while not self._stop_asked.is_set():
                    self._turn(http)
        except httpx.HTTPError as error:
            self.error = repr(error)

    def close(self) -> None:
        self._stop_asked.set()
        self.join(130)

    def _turn(self, http: httpx.Client) -> None:
        status = http.get(f"{self._rollout_server}/status").json()
        if status["queue_size"] > PAUSE_ABOVE:
            self._stop_asked.wait(0.1)
            return
        prompt = self._tokenizer.encode("say some\n=")
        body = {
            "input_ids": prompt,
            "sampling_params": {"n": GROUP, "max_new_tokens": MOST_TOKENS, "temperature": 1.0},
            "return_logprob": True,
        }
        answer = http.post(f"{self._inference}/generate", json=body)
        answer.raise_for_status()
        answers = answer.json()
        group = self._group(prompt, answers)
        http.post(f"{self._rollout_server}/scored_data", json=group).raise_for_status()
        mean = sum(group["scores"]) / len(group["scores"])
        self.pushed.append(Generated(_version(answers), mean))

    def _group(self, prompt: list[int], answers: list[dict[str, Any]]) -> dict[str, Any]:
        drawn = [answer["output_ids"] for answer in answers]
        pairs = [answer["meta_info"]["output_token_logprobs"] for answer in answers]
        return {
            "tokens": [[*prompt, *row] for row in drawn],
            "masks": [[-100] * len(prompt) + row for row in drawn],
            "inference_logprobs": [
                [1.0] * len(prompt) + [pair[0] for pair in row] for row in pairs
            ],
            "scores": [self._score(row) for row in drawn],
        }

    def _score(self, row: list[int]) -> float:
        text = self._tokenizer.decode(row)
        return sum(character.isdigit() for character in text) / max(1, len(text))


def _version(answers: list[dict[str, Any]]) -> int:
    return min(
        int(str(answer["meta_info"]["weight_version"]).rpartition("/")[2]) for answer in answers
    )

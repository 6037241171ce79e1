"""Make the data that the rows push: trajectory groups as real environments send them."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

VOCABULARY: Final = 151_936
MASKED: Final = -100
PROMPT_PART: Final = 8
# The first token of a body is this many digits, so that a number can be written over it.
FIRST_TOKEN: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What a group weighs."""

    sequences: int
    tokens: int

    @property
    def name(self) -> str:
        """Return the size as people say it."""
        return f"{self.sequences} × {self.tokens:,} tokens"


USUAL: Final = Size(sequences=8, tokens=2048)


def arrays(size: Size, *, seed: int) -> dict[str, NDArray[Any]]:
    """Return `tokens` and `masks` [S, T] int32, `inference_logprobs` [S, T] float32, `scores` [S].

    An eighth of each sequence is the prompt: masked with -100, its log-probabilities 1.0, as
    Atropos' environments write them.
    """
    random = np.random.default_rng(seed)
    shape = (size.sequences, size.tokens)
    tokens = random.integers(0, VOCABULARY, shape, dtype=np.int32)
    prompt = max(1, size.tokens // PROMPT_PART)
    masks = tokens.copy()
    masks[:, :prompt] = MASKED
    logprobs = -random.exponential(0.7, shape).astype(np.float32)
    logprobs[:, :prompt] = 1.0
    scores = random.choice([0.0, 1.0], size.sequences)
    scores[0] = 1.0 - scores[-1]  # never all the same: nobody trains on that
    return {"tokens": tokens, "masks": masks, "inference_logprobs": logprobs, "scores": scores}


def group(size: Size, *, seed: int, env_id: int | None = None) -> dict[str, Any]:
    """Return a group as Python lists, as `atroposlib` hands it to its HTTP client."""
    found = {name: array.tolist() for name, array in arrays(size, seed=seed).items()}
    found["tokens"][0][0] = FIRST_TOKEN
    return found | {"env_id": env_id}


@cache
def json_group(size: Size, *, seed: int, env_id: int | None = None) -> bytes:
    """Return a group as the bytes that a stock environment sends.

    `aiohttp` encodes with `json.dumps`, so there is a space after every comma.
    """
    return json.dumps(group(size, seed=seed, env_id=env_id)).encode()


class Numbered:
    """A request whose first token is replaced by a number: each one sent is another group."""

    def __init__(self, request: bytes) -> None:
        self._bytes = bytearray(request)
        place = request.index(str(FIRST_TOKEN).encode())
        self._digits = slice(place, place + len(str(FIRST_TOKEN)))

    def with_number(self, number: int) -> bytearray:
        """Return the request of that number; it is overwritten by the next call."""
        self._bytes[self._digits] = str(FIRST_TOKEN + number % (9 * FIRST_TOKEN)).encode()
        return self._bytes

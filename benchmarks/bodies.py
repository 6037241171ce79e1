"""Data for the rows: trajectory groups like those of real environments."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

VOCABULARY: Final = 151_936
MASKED: Final = -100
PROMPT_PART: Final = 8
# The first token of a body has this many digits, so that a number can replace it.
FIRST_TOKEN: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of a group."""

    sequences: int
    tokens: int

    @property
    def name(self) -> str:
        """Return the size in words."""
        return f"{self.sequences} × {self.tokens:,} tokens"


USUAL: Final = Size(sequences=8, tokens=2048)


def arrays(size: Size, *, seed: int) -> dict[str, NDArray[Any]]:
    """Return `tokens` and `masks` [S, T] int32, `inference_logprobs` [S, T] float32, `scores` [S].

    An eighth of each sequence is the prompt: masked with -100, with log-probabilities of 1.0, as
    in Atropos' environments.
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
    scores[0] = 1.0 - scores[-1]  # never all equal: such groups are dropped
    return {"tokens": tokens, "masks": masks, "inference_logprobs": logprobs, "scores": scores}


def group(size: Size, *, seed: int, env_id: int | None = None) -> dict[str, Any]:
    """Return a group as Python lists, as `atroposlib` passes it to its HTTP client."""
    fields = {name: array.tolist() for name, array in arrays(size, seed=seed).items()}
    fields["tokens"][0][0] = FIRST_TOKEN
    return fields | {"env_id": env_id}


@cache
def json_group(size: Size, *, seed: int, env_id: int | None = None) -> bytes:
    """Return a group as the bytes sent by a stock environment.

    `aiohttp` encodes with `json.dumps`, which writes a space after every comma.
    """
    return json.dumps(group(size, seed=seed, env_id=env_id)).encode()


class Numbered:
    """A request whose first token is replaced by a number, so that all sent groups differ."""

    def __init__(self, request: bytes) -> None:
        self._bytes = bytearray(request)
        place = request.index(str(FIRST_TOKEN).encode())
        self._digits = slice(place, place + len(str(FIRST_TOKEN)))

    def with_number(self, number: int) -> bytearray:
        """Return the request with this number; the next call overwrites it."""
        self._bytes[self._digits] = str(FIRST_TOKEN + number % (9 * FIRST_TOKEN)).encode()
        return self._bytes

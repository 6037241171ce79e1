"""Generation for many prompts at once: continuous batching over a key-value cache.

One thread owns an engine and calls `step` repeatedly. A step first admits waiting prompts while
rows are free, then adds one token to every sequence; finished sequences leave at once. Answers to
the same prompt share its prefill. New weights are swapped in between two steps, and every token is
labelled with the version that sampled it.

The cache rows in use are contiguous at its front, so a step works on one slice.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollouts.fleet.engine.tokenizers import TextStream, Tokenizer
from rollouts.fleet.engine.transformer import CacheView, KvCache, Transformer
from rollouts.fleet.policies.base import arrays_of

GREEDY: Final = 1e-5
"""Temperature up to which the most likely token is chosen."""
REACH_STEP: Final = 16
"""Step in positions by which the attended part of the cache grows."""
PROMPT_PLACES: Final = 256
"""Places of a prompt whose logits are computed at once."""
Version = tuple[int, int]
"""Epoch and step of the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling parameters of one answer."""

    max_tokens: int = 64
    temperature: float = 1.0
    top_p: float = 1.0
    """Cumulative probability of the most likely tokens that may be sampled."""
    top_k: int = 0
    """Number of most likely tokens that may be sampled; 0 for all."""
    stop_tokens: frozenset[int] = frozenset()
    """Tokens that end the answer; the stop token is its last token."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer; its last token is the one that completes the text."""
    seed: int = 0

    @property
    def is_greedy(self) -> bool:
        """Whether all answers to a prompt are the same."""
        return self.temperature <= GREEDY


def uniforms(seeds: NDArray[np.uint64], places: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number in [0, 1) for each pair of seed and place, ``[N]``.

    Equal pairs give equal numbers, independent of the other pairs. Source: SplitMix64, Steele, Lea
    and Flood, OOPSLA 2014.
    """
    with np.errstate(over="ignore"):
        x = seeds + np.uint64(0x9E3779B97F4A7C15) * (places + np.uint64(1))
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


@dataclass(slots=True, kw_only=True)
class Rules:
    """Sampling parameters of S sequences as columns."""

    temperature: Tensor
    """``[S, 1]`` float32, never 0."""
    top_p: Tensor
    """``[S, 1]`` float32."""
    top_k: Tensor
    """``[S, 1]`` int64; the vocabulary size means no limit."""
    is_limited: bool
    """Whether any sequence uses top-p or top-k."""
    is_greedy: Tensor
    """``[S]`` bool."""
    any_greedy: bool
    """Whether any sequence takes the most likely token."""

    @classmethod
    def of(cls, params: list[SamplingParams], *, vocab_size: int, device: torch.device) -> "Rules":
        """Return the columns of a list of parameters."""

        def column(values: list[float], kind: torch.dtype) -> Tensor:
            return torch.tensor(values, dtype=kind, device=device)[:, None]

        return cls(
            temperature=column([max(one.temperature, GREEDY) for one in params], torch.float32),
            top_p=column([one.top_p for one in params], torch.float32),
            top_k=column([one.top_k or vocab_size for one in params], torch.int64),
            is_limited=any(one.top_p < 1 or one.top_k for one in params),
            is_greedy=torch.tensor([one.is_greedy for one in params], device=device),
            any_greedy=any(one.is_greedy for one in params),
        )


def draw(logits: Tensor, rules: Rules, points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the tokens at `points` of the cumulative distributions, and their logprobs, ``[S]``.

    A logprob is taken at the sequence's temperature, before top-k and top-p, as a policy gradient
    needs it. For greedy sequences it is taken at temperature 1.

    Args:
        logits: ``[S, vocab]``.
        rules: Sampling parameters of the S sequences.
        points: ``[S]`` in [0, 1).
    """
    logprobs = torch.log_softmax(logits.float() / rules.temperature, dim=-1)
    probabilities = logprobs.exp()
    if rules.is_limited:
        # 0 for tokens that may not be sampled; the most likely token is always kept.
        ordered, places = probabilities.sort(dim=-1, descending=True)
        before = ordered.cumsum(dim=-1) - ordered
        ranks = torch.arange(ordered.shape[-1], device=ordered.device)
        kept = (before < rules.top_p) & (ranks < rules.top_k) | (ranks == 0)
        limited = torch.zeros_like(probabilities)
        probabilities = limited.scatter(-1, places, ordered * kept)
    reached = probabilities.cumsum(dim=-1)
    # Relative to the remaining mass, which limits and rounding reduce below 1.
    target = points.to(reached.dtype)[:, None] * reached[:, -1:]
    tokens = torch.searchsorted(reached, target, right=True).clamp_(max=logits.shape[-1] - 1)
    chosen = logprobs.gather(-1, tokens).squeeze(-1)
    tokens = tokens.squeeze(-1)
    if rules.any_greedy:
        likeliest = logits.argmax(dim=-1)
        plain = torch.log_softmax(logits.float(), dim=-1)
        tokens = torch.where(rules.is_greedy, likeliest, tokens)
        chosen = torch.where(
            rules.is_greedy, plain.gather(-1, likeliest[:, None]).squeeze(-1), chosen
        )
    return tokens, chosen


class PromptTooLong(ValueError):
    """The prompt leaves no room for an answer."""


class TokenUnknown(ValueError):
    """The prompt has a token that is not in the model's vocabulary."""


class StopTextsUnsupported(ValueError):
    """The engine has no tokenizer, so it cannot detect stop texts."""


@dataclass(slots=True, kw_only=True)
class Answer:
    """One sequence, in progress or finished."""

    request: int
    index: int
    """Index among the answers to its prompt."""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    """Version of the weights that sampled each token."""
    finish: Literal["", "stop", "length", "cancelled"] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Request for answers to one prompt."""

    tokens: tuple[int, ...]
    sampling: SamplingParams
    answers: int = 1


@dataclass(slots=True)
class _Row:
    """A sequence in the cache."""

    answer: Answer
    sampling: SamplingParams
    length: int
    """Number of tokens in the cache."""
    most: int
    """Maximum number of tokens of the answer."""
    text: TextStream | None
    """Text of the answer, which detects stop texts; None without any."""

    def finish(self) -> Literal["", "stop", "length"]:
        """Return whether and why the answer ends with its last token."""
        tokens = self.answer.tokens
        if self.text is not None:
            self.text.add(tokens)
        if tokens[-1] in self.sampling.stop_tokens or (self.text and self.text.is_stopped):
            return "stop"
        return "length" if len(tokens) >= self.most else ""


class Engine:
    """Engine as described above; only `submit` and `cancel` may run concurrently with `step`."""

    def __init__(
        self,
        model: Transformer,
        *,
        rows: int,
        version: Version = (0, 0),
        tokenizer: Tokenizer | None = None,
    ) -> None:
        """Start without sequences.

        Args:
            model: Model to use, without a copy.
            rows: Number of sequences generated concurrently.
            version: Version of the model's weights.
            tokenizer: Tokenizer of the model, which prompts with stop texts require.
        """
        self.version = version
        self.drawn = 0
        """Total number of sampled tokens."""
        self._tokenizer = tokenizer
        self._model = model.eval()
        weight = model.embed.weight
        self._device = weight.device
        self._cache = KvCache(
            model.config,
            sequences=rows,
            capacity=model.config.max_position_embeddings,
            device=weight.device,
            dtype=weight.dtype,
        )
        self._free = rows
        self._rows: list[_Row] = []
        self._waiting: deque[tuple[int, int, Prompt]] = deque()
        """Request, number of answers still to start, prompt."""
        self._cancelled: set[int] = set()
        self._next_request = 0
        self._rules: Rules | None = None

    @property
    def vocab_size(self) -> int:
        """Size of the model's vocabulary; token ids are below it."""
        return self._model.config.vocab_size

    @property
    def is_idle(self) -> bool:
        """Whether no sequence is running or waiting."""
        return not self._rows and not self._waiting

    @property
    def running(self) -> int:
        """Number of sequences in progress."""
        return len(self._rows)

    @property
    def waiting(self) -> int:
        """Number of sequences that wait for a row."""
        # Called by other threads: iterating over a deque that changes would fail.
        return sum(answers for _, answers, _ in self._waiting.copy())

    def submit(self, prompt: Prompt) -> int:
        """Queue a prompt; return the number of the request.

        Raises:
            PromptTooLong: If it is empty, or fills the model's context.
            StopTextsUnsupported: If it has stop texts, and the engine has no tokenizer.
        """
        self.check_stop_texts(prompt)
        context = self._model.config.max_position_embeddings
        if not 0 < len(prompt.tokens) < context:
            raise PromptTooLong(
                f"the prompt has {len(prompt.tokens)} tokens; 1 to {context - 1} fit the context"
            )
        self._next_request += 1
        self._waiting.append((self._next_request, prompt.answers, prompt))
        return self._next_request

    def check_stop_texts(self, prompt: Prompt) -> None:
        """Check that the engine can detect the stop texts of a prompt.

        Raises:
            StopTextsUnsupported: If it has some, and the engine has no tokenizer.
        """
        if prompt.sampling.stop and self._tokenizer is None:
            raise StopTextsUnsupported("stop texts require an engine with a tokenizer")

    def cancel(self, request: int) -> None:
        """Cancel a request at the next step."""
        self._cancelled.add(request)

    def adopt(self, model: Transformer, version: Version) -> None:
        """Continue with other weights of the same shapes, including sequences in progress.

        Keys and values of the old weights stay in the cache, as in other engines with in-flight
        updates. The versions of an answer's tokens show where the change was.
        """
        self._model, self.version = model.eval(), version

    def prompt_logprobs(self, tokens: Sequence[int], *, likeliest: int) -> list[dict[int, float]]:
        """Return log probabilities for each place of a prompt after the first, at temperature 1.

        Args:
            tokens: The prompt; it fits the context.
            likeliest: Number of the most likely tokens to include.

        Returns:
            For each place its own token first, then the most likely others.
        """
        given = torch.tensor(tokens, device=self._device)
        found: list[dict[int, float]] = []
        with torch.inference_mode():
            positions = torch.arange(len(tokens), device=self._device)[None]
            hidden = self._model.hidden(given[None], positions, CacheView())[0, :-1]
            # In parts: all logits of a long prompt together can exceed the memory.
            parts = zip(hidden.split(PROMPT_PLACES), given[1:].split(PROMPT_PLACES), strict=True)
            for part, own in parts:
                logprobs = torch.log_softmax(self._model.logits(part).float(), dim=-1)
                top = logprobs.topk(min(likeliest, self.vocab_size), dim=-1).indices
                shown = torch.cat([own[:, None], top], dim=-1)
                pairs = zip(shown.tolist(), logprobs.gather(-1, shown).tolist(), strict=True)
                found += [dict(zip(*pair, strict=True)) for pair in pairs]
        return found

    def step(self) -> list[Answer]:
        """Add one token to every sequence; return the changed and finished ones."""
        gone: list[Answer] = []
        if self._cancelled:
            cancelled, self._cancelled = self._cancelled, set()
            self._waiting = deque(one for one in self._waiting if one[0] not in cancelled)
            gone = [row.answer for row in self._rows if row.answer.request in cancelled]
            for answer in gone:
                answer.finish = "cancelled"
            self._leave()
        with torch.inference_mode():
            self._admit()
            self._extend()
        touched = [row.answer for row in self._rows]
        self._leave()
        return gone + touched

    def _admit(self) -> None:
        """Prefill waiting prompts while rows are free; each answer gets its first token."""
        first_row, logits = len(self._rows), list[Tensor]()
        while self._waiting and len(self._rows) < self._free:
            request, answers, prompt = self._waiting.popleft()
            count = min(answers, self._free - len(self._rows))
            if count < answers:
                self._waiting.appendleft((request, answers - count, prompt))
            first = prompt.answers - answers
            logits.append(self._begin(request, prompt, range(first, first + count)))
        if logits:
            rows = self._rows[first_row:]
            self._record_tokens(rows, torch.cat(logits), self._rules_of(rows))

    def _begin(self, request: int, prompt: Prompt, indices: range) -> Tensor:
        """Prefill a prompt, and add rows for its answers; return their logits ``[rows, vocab]``."""
        at, length = len(self._rows), len(prompt.tokens)
        tokens = torch.tensor([prompt.tokens], device=self._device)
        positions = torch.arange(length, device=self._device)[None]
        view = CacheView(
            self._cache, rows=slice(at, at + 1), positions=positions, reach=length, mask=None
        )
        hidden = self._model.hidden(tokens, positions, view)[:, -1]
        logits = self._model.logits(hidden).expand(len(indices), -1)
        if len(indices) > 1:
            others = torch.arange(at + 1, at + len(indices), device=self._device)
            self._cache.copy(at, others, length)
        room = self._model.config.max_position_embeddings - length
        self._rows += [
            _Row(
                answer=Answer(request=request, index=index),
                sampling=prompt.sampling,
                length=length,
                most=min(room, prompt.sampling.max_tokens),
                text=TextStream(self._tokenizer, prompt.sampling.stop)
                if self._tokenizer is not None and prompt.sampling.stop
                else None,
            )
            for index in indices
        ]
        self._rules = None
        return logits

    def _extend(self) -> None:
        """Add a token to every row that did not end with its first token."""
        rows = self._rows
        if all(row.answer.finish for row in rows):
            return
        last = torch.tensor([[row.answer.tokens[-1]] for row in rows], device=self._device)
        positions = torch.tensor([[row.length] for row in rows], device=self._device)
        # Rounded up, so that few different shapes of the attended part occur.
        longest = max(row.length for row in rows) + 1
        rounded = -(-longest // REACH_STEP) * REACH_STEP
        reach = min(rounded, self._model.config.max_position_embeddings)
        seen = torch.arange(reach, device=self._device) <= positions
        # 0 where a position is visible, minus infinity elsewhere.
        bias = torch.zeros(seen.shape, dtype=self._cache.keys.dtype, device=self._device)
        bias.masked_fill_(~seen, -torch.inf)
        view = CacheView(
            self._cache,
            rows=slice(0, len(rows)),
            positions=positions,
            reach=reach,
            mask=bias[:, None, None, :],
        )
        logits = self._model.logits(self._model.hidden(last, positions, view)[:, -1])
        for row in rows:
            row.length += 1
        if self._rules is None:
            self._rules = self._rules_of(rows)
        self._record_tokens(rows, logits, self._rules)

    def _rules_of(self, rows: Sequence[_Row]) -> Rules:
        return Rules.of(
            [row.sampling for row in rows],
            vocab_size=self._model.config.vocab_size,
            device=self._device,
        )

    def _record_tokens(self, rows: Sequence[_Row], logits: Tensor, rules: Rules) -> None:
        """Sample a token for each of `rows` from ``logits [rows, vocab]``.

        Tokens and log probabilities leave the device in one copy.
        """
        seeds = np.array(
            [(row.sampling.seed << 20) + row.answer.index for row in rows], dtype=np.uint64
        )
        places = np.array([len(row.answer.tokens) for row in rows], dtype=np.uint64)
        points = torch.from_numpy(uniforms(seeds, places)).to(self._device)
        tokens, logprobs = arrays_of(draw(logits, rules, points))
        for row, token, logprob in zip(rows, tokens.tolist(), logprobs.tolist(), strict=True):
            answer = row.answer
            if answer.finish:
                continue
            self.drawn += 1
            answer.tokens.append(token)
            answer.logprobs.append(logprob)
            answer.versions.append(self.version)
            answer.finish = row.finish()

    def _leave(self) -> None:
        """Remove finished sequences; the last rows move into their places."""
        place = 0
        while place < len(self._rows):
            if not self._rows[place].answer.finish:
                place += 1
                continue
            last = self._rows.pop()
            if place < len(self._rows):
                targets = torch.tensor([place], device=self._device)
                if not last.answer.finish:
                    self._cache.copy(len(self._rows), targets, last.length)
                self._rows[place] = last
            self._rules = None


def generate(engine: Engine, prompts: Sequence[Prompt]) -> Mapping[int, list[Answer]]:
    """Wait for the answers to `prompts`; return them by the index of the prompt."""
    numbers = {engine.submit(prompt): place for place, prompt in enumerate(prompts)}
    found: dict[int, list[Answer]] = {place: [] for place in range(len(prompts))}
    while not engine.is_idle:
        for answer in engine.step():
            if answer.finish and answer.request in numbers:
                found[numbers[answer.request]].append(answer)
    return {place: sorted(answers, key=lambda one: one.index) for place, answers in found.items()}

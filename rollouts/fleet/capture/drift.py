"""Repair of retokenisation drift between the calls of a session.

An agent returns an answer as text. The inference server tokenizes that text again, and may get
other tokens than the policy sampled. If both decode to the same text, except for the spelling of
the JSON of tool calls, the repair records the sampled tokens for that part of the prompt, so that
the calls stay one sequence. In any other case the call begins a new sequence.
"""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from rolldeck.captures import CallPush, Repair

Detokenize = Callable[[Sequence[int]], Awaitable[str | None]]
"""Returns the text of tokens, with special tokens; None if it is unknown."""
Tokens = np.ndarray[Any, np.dtype[np.int32]]

MOST_MEMORY_BYTES: Final = 256 << 20
MOST_TRIES: Final = 4
"""Maximum number of earlier answers with which a prompt is compared as text."""
CONTEXT_TOKENS: Final = 8
"""Equal tokens before an answer that are decoded too: their end can change a first space."""
UNKNOWN_CHARACTER: Final = "\ufffd"
MOST_BRACES: Final = 256
"""Maximum number of braces before a difference at which a JSON value may begin."""


class ReportedCall(NamedTuple):
    """Tool call of an answer, as the inference server parsed it."""

    name: str
    arguments: str
    """Canonical JSON of an object."""


def reported_calls(message: dict[str, Any] | None) -> tuple[ReportedCall, ...]:
    """Return the tool calls of an answer whose arguments are a JSON object.

    Args:
        message: The answer as a message of OpenAI's chat completions; None for a completion.
    """
    functions = [call["function"] for call in (message or {}).get("tool_calls") or []]
    found = [(function["name"], _object(function["arguments"], 0)) for function in functions]
    return tuple(ReportedCall(name, _canonical(one[0])) for name, one in found if one is not None)


def matched_length(written: str, rendered: str, calls: Sequence[ReportedCall]) -> int | None:
    """Return the length of the beginning of `rendered` that equals `written`; None if none does.

    Args:
        written: Text of the sampled tokens.
        rendered: Text of a later prompt.
        calls: Tool calls in `written`, in order.
    """
    begin = place = 0
    rest = calls
    while True:
        shared = _equal_characters(written[begin:], rendered[place:])
        if begin + shared == len(written):
            return place + shared
        found = _call_at(written, begin, rendered, place, shared, rest)
        if found is None:
            return None
        begin, place, rest = found


def _call_at(
    written: str,
    begin: int,
    rendered: str,
    place: int,
    shared: int,
    calls: Sequence[ReportedCall],
) -> tuple[int, int, Sequence[ReportedCall]] | None:
    """Return where the call ends in both texts that contains their first difference, or None.

    Args:
        written: Text of the sampled tokens; equal to `rendered` from `begin` for `shared`.
        begin: Place in it.
        rendered: Text of a later prompt.
        place: Place in it.
        shared: Number of equal characters before the difference.
        calls: Calls that may follow; the result has those after the found one.
    """
    brace = shared
    for _ in range(MOST_BRACES):
        brace = written.rfind("{", begin, begin + brace) - begin
        if brace < 0:
            return None
        one, other = _object(written, begin + brace), _object(rendered, place + brace)
        if one is None or other is None or one[1] <= begin + shared:
            continue
        value = _canonical(one[0])
        if value != _canonical(other[0]):
            continue
        # It is the arguments of a call, or an object with its name and them.
        parts = [_canonical(part) for part in one[0].values()]
        for number, call in enumerate(calls):
            is_named = one[0].get("name") == call.name
            if value == call.arguments or (is_named and call.arguments in parts):
                return one[1], other[1], calls[number + 1 :]
    return None


def _object(text: str, begin: int) -> tuple[dict[str, Any], int] | None:
    """Return the JSON object at a position of a text and its end, or None."""
    try:
        value, end = DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def _equal_characters(one: str, other: str) -> int:
    """Return the number of equal characters at the beginning of both."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _canonical(value: Any) -> str:
    """Return the same text for equal JSON values; 1, 1.0 and true are different ones."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a key occurs twice")
    return made


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Prompt and answer of an earlier call, with its repair applied."""

    tokens: Tokens
    answers: tuple[int, ...]
    """Places where the policy's answers begin, in order."""
    calls: tuple[ReportedCall, ...]
    """Tool calls of all answers, in order."""

    @property
    def size_bytes(self) -> int:
        return self.tokens.nbytes + sum(len(call.arguments) for call in self.calls)

    def answer_before(self, place: int) -> int:
        """Return where the answer begins that contains a token, at most at `place`."""
        return max((one for one in self.answers if one <= place), default=place)


def _total_bytes(known: list[_Known]) -> int:
    return sum(one.size_bytes for one in known)


class DriftRepair:
    """Repairs of the calls of all sessions; the least recently used sessions are forgotten."""

    def __init__(self, detokenize: Detokenize, *, most_bytes: int = MOST_MEMORY_BYTES) -> None:
        """Start without any session.

        Args:
            detokenize: Decodes tokens with the tokenizer of the inference server.
            most_bytes: Limit of the tokens in memory.
        """
        self._detokenize, self._most_bytes = detokenize, most_bytes
        self._sessions: OrderedDict[str, list[_Known]] = OrderedDict()
        self._size_bytes = 0

    async def repaired(self, session: str, call: CallPush) -> CallPush:
        """Return a call with its repair, if its prompt has drifted and the texts are equal."""
        prompt = _array(call.prompt_tokens)
        known = self._sessions.get(session, [])
        exact = max((len(one.tokens) for one in known if _starts(prompt, one.tokens)), default=0)
        drifted = []
        for one in known:
            shared = _shared(prompt, one.tokens)
            # A first sampled token can merge with the token before it.
            if len(one.tokens) > exact and one.answers[0] - 1 <= shared < len(one.tokens):
                drifted.append((shared, one))
        drifted.sort(key=lambda found: (found[0], len(found[1].tokens)), reverse=True)
        for shared, sampled in drifted[:MOST_TRIES]:
            stop = await self._same_text(prompt, sampled, shared)
            if stop is not None:
                repair = Repair(start=shared, stop=stop, tokens=sampled.tokens[shared:].tolist())
                return msgspec.structs.replace(call, repair=repair)
        return call

    def remember(self, session: str, call: CallPush) -> None:
        """Keep the tokens of a stored call for the comparison with later calls."""
        known = self._sessions.setdefault(session, [])
        self._sessions.move_to_end(session)
        before = _total_bytes(known)
        prompt = _array(call.repaired_prompt)
        for answer in call.answers:
            tokens = np.concatenate([prompt, _array(answer.tokens)])
            earlier = [one for one in known if _starts(tokens, one.tokens)]
            longest = max(earlier, key=lambda one: len(one.tokens), default=None)
            before_it = ((), ()) if longest is None else (longest.answers, longest.calls)
            # An answer in the prompt of a later one is part of that.
            known[:] = [one for one in known if one not in earlier]
            places = (*before_it[0], len(prompt))
            known.append(_Known(tokens, places, before_it[1] + reported_calls(answer.message)))
        self._size_bytes += _total_bytes(known) - before
        while self._size_bytes > self._most_bytes and self._sessions:
            _, forgotten = self._sessions.popitem(last=False)
            self._size_bytes -= _total_bytes(forgotten)

    async def _same_text(self, prompt: Tokens, sampled: _Known, shared: int) -> int | None:
        """Return where the prompt's tokens end that have the text of the sampled ones, or None."""
        # A tool call can begin long before its first different token.
        start = max(0, sampled.answer_before(shared) - CONTEXT_TOKENS)
        wanted = await self._detokenize(sampled.tokens[start:].tolist())
        whole = await self._detokenize(prompt[start:].tolist())
        if wanted is None or whole is None or UNKNOWN_CHARACTER in wanted:
            return None
        length = matched_length(wanted, whole, sampled.calls)
        if length is None:
            return None
        low, high = shared, len(prompt)
        while low < high:
            middle = (low + high) // 2
            text = await self._detokenize(prompt[start:middle].tolist())
            if text is None:
                return None
            if len(text) < length:
                low = middle + 1
            else:
                high = middle
        return low if await self._detokenize(prompt[start:low].tolist()) == whole[:length] else None


def _array(tokens: Sequence[int]) -> Tokens:
    return np.asarray(tokens, dtype=np.int32)


def _shared(one: Tokens, other: Tokens) -> int:
    """Return the number of equal tokens at the beginning of both."""
    most = min(len(one), len(other))
    different = np.nonzero(one[:most] != other[:most])[0]
    return int(different[0]) if len(different) else most


def _starts(tokens: Tokens, beginning: Tokens) -> bool:
    return len(beginning) <= len(tokens) and _shared(tokens, beginning) == len(beginning)

"""Decode the tokens of an answer incrementally, and detect stop texts."""

from collections.abc import Sequence

from rollouts.fleet.engine.tokenizers import Tokenizer

INCOMPLETE = "\ufffd"


class TextStream:
    """Text of one answer; released text never changes with later tokens.

    Incomplete characters and possible beginnings of a stop text are held back.
    """

    def __init__(
        self, tokenizer: Tokenizer, stop: Sequence[str] = (), *, includes_stop: bool = False
    ) -> None:
        """Start with an empty text.

        Args:
            tokenizer: Tokenizer of the model.
            stop: Non-empty texts that end the answer.
            includes_stop: Whether the text ends with the stop text, and not before it.
        """
        self.text = ""
        """Released text so far."""
        self.stopped_by = ""
        """Stop text that ended the answer."""
        self._tokenizer = tokenizer
        self._stop, self._includes_stop = tuple(stop), includes_stop
        self._decoded = ""
        self._taken = 0
        self._settled = 0
        """Number of tokens whose text no later token changes."""

    @property
    def is_stopped(self) -> bool:
        """Whether a stop text has ended the answer."""
        return bool(self.stopped_by)

    def add(self, tokens: Sequence[int], *, is_last: bool = False) -> str:
        """Return the newly released text.

        Args:
            tokens: All tokens of the answer so far.
            is_last: Whether the answer is complete, so that nothing is held back.
        """
        if self.is_stopped:
            return ""
        self._decode(tokens, is_last=is_last)
        before = len(self.text)
        end = self._end_of(self._decoded)
        if end is not None:
            self.text = self._decoded[:end]
        else:
            held = 0 if is_last else self._held(self._decoded)
            self.text = self._decoded[: len(self._decoded) - held]
        return self.text[before:]

    def _decode(self, tokens: Sequence[int], *, is_last: bool) -> None:
        """Decode the new tokens, together with some earlier ones, because texts may join."""
        known = self._tokenizer.decode(tokens[self._settled : self._taken])
        whole = self._tokenizer.decode(tokens[self._settled :])
        if whole.endswith(INCOMPLETE) and not is_last:
            return
        self._decoded += whole[len(known) :]
        self._settled, self._taken = self._taken, len(tokens)

    def _end_of(self, text: str) -> int | None:
        found = [(place, stop) for stop in self._stop if (place := text.find(stop)) >= 0]
        if not found:
            return None
        place, self.stopped_by = min(found)
        return place + len(self.stopped_by) if self._includes_stop else place

    def _held(self, text: str) -> int:
        """Return how many characters at the end may begin a stop text."""
        longest = max((len(stop) for stop in self._stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-length:]) for stop in self._stop):
                return length
        return 0

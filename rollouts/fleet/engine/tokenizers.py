"""Tokenizers: two built-in ones, and Hugging Face's files.

A folder selects one by its file: ``rolldeck_tokenizer.json`` for a built-in tokenizer, or
``tokenizer.json`` for the `tokenizers` library, with a chat template in ``tokenizer_config.json``.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import Struct

Message = Mapping[str, Any]
"""One turn of a conversation with at least `role` and `content`."""


END_TEXT: Final = b"<|end|>"
"""Text of the end token of built-in tokenizers, where special tokens have one."""
INCOMPLETE = "\ufffd"


class TokenizerUnusable(ValueError):
    """The tokenizer cannot be read, does not fit its model, or cannot encode a text."""


class Tokenizer(Protocol):
    """Interface of a tokenizer for generation."""

    vocab_size: int
    """Exclusive upper limit of token ids."""
    end: int
    """Token that ends an answer."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, without special tokens added.

        Raises:
            TokenizerUnusable: If a part of it has no token.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of some tokens; the end token has none."""

    def decode_with_special(self, tokens: Sequence[int]) -> str:
        """Return the text of some tokens, in which special tokens have a text too."""

    def render(self, messages: Sequence[Message]) -> str:
        """Return a conversation as text, ready for the assistant's next turn."""


class ChatFormat(Struct, frozen=True, forbid_unknown_fields=True):
    """Chat template: a pattern per role, with ``{}`` for the content."""

    system: str = "{}\n"
    user: str = "{}\n"
    assistant: str = "{}\n"
    answer: str = ""
    """Text before the assistant's next turn."""

    def render(self, messages: Sequence[Message]) -> str:
        patterns = {"system": self.system, "user": self.user, "assistant": self.assistant}
        turns = []
        for place, message in enumerate(messages):
            role = str(message.get("role", ""))
            if role not in patterns:
                raise TokenizerUnusable(
                    f"messages.{place}.role: {role!r} is not one of {', '.join(patterns)}"
                )
            turns.append(patterns[role].replace("{}", str(message.get("content") or "")))
        return "".join(turns) + self.answer


class _Description(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["byte", "char"]
    alphabet: str | tuple[str, ...] = ""
    chat: ChatFormat = ChatFormat()


class ByteTokenizer:
    """Tokenizer with one token per UTF-8 byte, and an end token."""

    end = 256
    vocab_size = 257

    def __init__(self, chat: ChatFormat | None = None) -> None:
        self.chat = chat or ChatFormat()

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of some bytes; invalid UTF-8 becomes U+FFFD."""
        return bytes(token for token in tokens if token < self.end).decode(errors="replace")

    def decode_with_special(self, tokens: Sequence[int]) -> str:
        pieces = (END_TEXT if token == self.end else bytes([token]) for token in tokens)
        return b"".join(pieces).decode(errors="replace")

    def render(self, messages: Sequence[Message]) -> str:
        return self.chat.render(messages)


class AlphabetTokenizer:
    """Tokenizer with one token per entry of an alphabet, a character or a word, and an end token.

    The longest entry that fits is the next token of a text.
    """

    def __init__(self, alphabet: Sequence[str], chat: ChatFormat | None = None) -> None:
        """Number the entries in their order.

        Raises:
            TokenizerUnusable: If an entry is repeated or empty.
        """
        self.alphabet, self.chat = tuple(alphabet), chat or ChatFormat()
        if len(set(self.alphabet)) < len(self.alphabet) or "" in self.alphabet:
            raise TokenizerUnusable("alphabet: contains a repeated or an empty entry")
        self.end = len(alphabet)
        self.vocab_size = self.end + 1
        self._places = {entry: place for place, entry in enumerate(alphabet)}
        longest_first = sorted(self._places, key=len, reverse=True)
        self._next = re.compile("|".join([*map(re.escape, longest_first), "."]), re.DOTALL)

    def encode(self, text: str) -> list[int]:
        found = self._next.findall(text)
        strange = sorted(set(found) - self._places.keys())
        if strange:
            raise TokenizerUnusable(f"{''.join(strange)!r} is not in the alphabet")
        return [self._places[entry] for entry in found]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.alphabet[token] for token in tokens if token < self.end)

    def decode_with_special(self, tokens: Sequence[int]) -> str:
        pieces = (
            END_TEXT.decode() if token == self.end else self.alphabet[token] for token in tokens
        )
        return "".join(pieces)

    def render(self, messages: Sequence[Message]) -> str:
        return self.chat.render(messages)


class HuggingFaceTokenizer:
    """Tokenizer from ``tokenizer.json``, with a Jinja chat template."""

    def __init__(self, folder: Path) -> None:
        """Read the files.

        Raises:
            TokenizerUnusable: If a file is invalid, or the library is not installed.
        """
        try:
            import tokenizers
        except ImportError as error:
            raise TokenizerUnusable(
                f"{folder.name}: tokenizer.json requires pip install tokenizers jinja2"
            ) from error
        try:
            self._inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            config = folder / "tokenizer_config.json"
            described = json.loads(config.read_text()) if config.exists() else {}
        except Exception as error:  # the library raises bare exceptions
            raise TokenizerUnusable(f"{folder.name}: {error}") from error
        self.folder = folder
        self.vocab_size = self._inner.get_vocab_size(with_added_tokens=True)
        self.end = self._end_of(described)
        self._special = {
            name: _text_of(described[name])
            for name in ("bos_token", "eos_token", "pad_token")
            if described.get(name)
        }
        self._template = str(described.get("chat_template") or "")

    def encode(self, text: str) -> list[int]:
        """Return the tokens of `text`; special tokens in it are recognized."""
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return str(self._inner.decode(list(tokens), skip_special_tokens=True))

    def decode_with_special(self, tokens: Sequence[int]) -> str:
        return str(self._inner.decode(list(tokens), skip_special_tokens=False))

    def render(self, messages: Sequence[Message]) -> str:
        if not self._template:
            return ChatFormat().render(messages)
        # A template is code from a checkpoint, so it runs in a sandbox.
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        try:
            template = environment.from_string(self._template)
            return template.render(
                messages=list(messages), add_generation_prompt=True, **self._special
            )
        except TemplateError as error:
            raise TokenizerUnusable(f"chat_template: {error}") from error

    def _end_of(self, described: Mapping[str, Any]) -> int:
        name = _text_of(described.get("eos_token") or "")
        end = self._inner.token_to_id(name) if name else None
        if end is None:
            raise TokenizerUnusable("tokenizer_config.json: eos_token is not in the vocabulary")
        return int(end)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer in a checkpoint's folder.

    Raises:
        TokenizerUnusable: If it is missing or invalid.
    """
    if not folder.is_dir():
        raise TokenizerUnusable(f"{folder} is not a folder of this machine")
    own = folder / "rolldeck_tokenizer.json"
    if not own.exists():
        if (folder / "tokenizer.json").exists():
            return HuggingFaceTokenizer(folder)
        raise TokenizerUnusable(f"{folder.name} has neither {own.name} nor tokenizer.json")
    try:
        described = msgspec.json.decode(own.read_bytes(), type=_Description)
    except msgspec.DecodeError as error:
        raise TokenizerUnusable(f"{own.name}: {error}") from error
    if described.kind == "byte":
        return ByteTokenizer(described.chat)
    return AlphabetTokenizer(described.alphabet, described.chat)


def save_tokenizer(tokenizer: ByteTokenizer | AlphabetTokenizer, folder: Path) -> None:
    """Write a built-in tokenizer to a folder."""
    described = (
        _Description("byte", chat=tokenizer.chat)
        if isinstance(tokenizer, ByteTokenizer)
        else _Description("char", tokenizer.alphabet, tokenizer.chat)
    )
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / "rolldeck_tokenizer.json.part"
    part.write_bytes(msgspec.json.encode(described))
    part.replace(folder / "rolldeck_tokenizer.json")


def check_fit(tokenizer: Tokenizer, *, vocab_size: int) -> None:
    """Check that a model has all tokens of a tokenizer.

    Raises:
        TokenizerUnusable: If the tokenizer is larger; the text names both sizes.
    """
    if tokenizer.vocab_size > vocab_size:
        raise TokenizerUnusable(
            f"the tokenizer has {tokenizer.vocab_size} tokens, the model only {vocab_size}"
        )


def check_tokens(tokens: Sequence[int], tokenizer: Tokenizer) -> None:
    """Check that a tokenizer has all of some tokens.

    Raises:
        TokenizerUnusable: With the first token that it lacks.
    """
    for token in tokens:
        if not 0 <= token < tokenizer.vocab_size:
            raise TokenizerUnusable(
                f"prompt: token {token} is not one of the tokenizer's {tokenizer.vocab_size}"
            )


def _text_of(token: object) -> str:
    """Return the text of a special token, stored as a string or in an object."""
    return str(token.get("content", "")) if isinstance(token, Mapping) else str(token)


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
        # The new tokens are decoded together with some earlier ones, because texts may join.
        known = self._tokenizer.decode(tokens[self._settled : self._taken])
        whole = self._tokenizer.decode(tokens[self._settled :])
        if is_last or not whole.endswith(INCOMPLETE):
            self._decoded += whole[len(known) :]
            self._settled, self._taken = self._taken, len(tokens)
        before = len(self.text)
        end = self._end_of(self._decoded)
        if end is not None:
            self.text = self._decoded[:end]
        else:
            held = 0 if is_last else self._held(self._decoded)
            self.text = self._decoded[: len(self._decoded) - held]
        return self.text[before:]

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

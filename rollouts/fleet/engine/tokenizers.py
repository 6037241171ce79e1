"""Turn text into tokens and back: two tokenizers of our own, and Hugging Face's files.

A folder says which one it wants: ``rolldeck_tokenizer.json`` one of ours, ``tokenizer.json`` a
file of the `tokenizers` library, with its chat template in ``tokenizer_config.json``.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

Message = Mapping[str, Any]
"""One turn of a conversation: at least `role` and `content`."""


class TokenizerUnusable(ValueError):
    """A tokenizer cannot be read, does not fit its model, or cannot write a text."""


class Tokenizer(Protocol):
    """What generation needs of a tokenizer."""

    vocab_size: int
    """All tokens are below it."""
    end: int
    """Ends an answer."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, nothing added.

        Raises:
            TokenizerUnusable: If a part of it has no token.
        """

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of some tokens; the end has none."""

    def render(self, messages: Sequence[Message]) -> str:
        """Return a conversation as the text that the assistant's next turn follows."""


class ChatFormat(Struct, frozen=True, forbid_unknown_fields=True):
    """How turns become text: each role's pattern, ``{}`` standing for the content."""

    system: str = "{}\n"
    user: str = "{}\n"
    assistant: str = "{}\n"
    answer: str = ""
    """What precedes the assistant's next turn."""

    def render(self, messages: Sequence[Message]) -> str:
        """Return a conversation as text."""
        patterns = {"system": self.system, "user": self.user, "assistant": self.assistant}
        turns = []
        for place, message in enumerate(messages):
            role = str(message.get("role", ""))
            if role not in patterns:
                raise TokenizerUnusable(f"messages.{place}.role: {role!r} has no pattern")
            turns.append(patterns[role].replace("{}", str(message.get("content") or "")))
        return "".join(turns) + self.answer


class _Description(Struct, frozen=True, forbid_unknown_fields=True):
    kind: Literal["byte", "char"]
    alphabet: str = ""
    chat: ChatFormat = ChatFormat()


class ByteTokenizer:
    """A token for each byte of UTF-8, and one for the end."""

    end = 256
    vocab_size = 257

    def __init__(self, chat: ChatFormat | None = None) -> None:
        self.chat = chat or ChatFormat()

    def encode(self, text: str) -> list[int]:
        """Return the bytes of `text`."""
        return list(text.encode())

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of some bytes; what is no UTF-8 becomes U+FFFD."""
        return bytes(token for token in tokens if token < self.end).decode(errors="replace")

    def render(self, messages: Sequence[Message]) -> str:
        """Return a conversation as text."""
        return self.chat.render(messages)


class CharTokenizer:
    """A token for each character of an alphabet, and one for the end."""

    def __init__(self, alphabet: str, chat: ChatFormat | None = None) -> None:
        """Number the characters in their order.

        Raises:
            TokenizerUnusable: If one is there twice.
        """
        if len(set(alphabet)) < len(alphabet):
            raise TokenizerUnusable("alphabet: a character is there twice")
        self.alphabet, self.chat = alphabet, chat or ChatFormat()
        self.end = len(alphabet)
        self.vocab_size = self.end + 1
        self._places = {character: place for place, character in enumerate(alphabet)}

    def encode(self, text: str) -> list[int]:
        """Return the places of the characters in the alphabet."""
        strange = sorted(set(text) - self._places.keys())
        if strange:
            raise TokenizerUnusable(f"{''.join(strange)!r} is not in the alphabet")
        return [self._places[character] for character in text]

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the characters of some tokens."""
        return "".join(self.alphabet[token] for token in tokens if token < self.end)

    def render(self, messages: Sequence[Message]) -> str:
        """Return a conversation as text."""
        return self.chat.render(messages)


class HuggingFaceTokenizer:
    """A ``tokenizer.json``, and the Jinja template of chats beside it."""

    def __init__(self, folder: Path) -> None:
        """Read the files.

        Raises:
            TokenizerUnusable: If one is damaged, or the library is not installed.
        """
        try:
            import tokenizers
        except ImportError as error:
            raise TokenizerUnusable(
                f"{folder.name} has a tokenizer.json: pip install tokenizers jinja2"
            ) from error
        try:
            self._inner = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
            config = folder / "tokenizer_config.json"
            described = json.loads(config.read_text()) if config.exists() else {}
        except Exception as error:  # the library raises bare ones
            raise TokenizerUnusable(f"{folder.name}: {error}") from error
        self.vocab_size = self._inner.get_vocab_size(with_added_tokens=True)
        self.end = self._end_of(described)
        self._special = {
            name: _text_of(described[name])
            for name in ("bos_token", "eos_token", "pad_token")
            if described.get(name)
        }
        self._template = str(described.get("chat_template") or "")

    def encode(self, text: str) -> list[int]:
        """Return the tokens of `text`; special tokens in it count as such."""
        return list(self._inner.encode(text, add_special_tokens=False).ids)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of some tokens, without special ones."""
        return str(self._inner.decode(list(tokens), skip_special_tokens=True))

    def render(self, messages: Sequence[Message]) -> str:
        """Return a conversation as the template writes it."""
        if not self._template:
            return ChatFormat().render(messages)
        # A template is code that came with a checkpoint: it gets a sandbox.
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
            raise TokenizerUnusable("tokenizer_config.json: eos_token names no token")
        return int(end)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer that lies beside a checkpoint.

    Raises:
        TokenizerUnusable: If there is none, or it is damaged.
    """
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
    return CharTokenizer(described.alphabet, described.chat)


def save_tokenizer(tokenizer: ByteTokenizer | CharTokenizer, folder: Path) -> None:
    """Write one of our tokenizers into a folder."""
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
    """Refuse a tokenizer with tokens that a model does not have.

    Raises:
        TokenizerUnusable: Naming both sizes.
    """
    if tokenizer.vocab_size > vocab_size:
        raise TokenizerUnusable(
            f"the tokenizer has {tokenizer.vocab_size} tokens, the model knows {vocab_size}"
        )


def _text_of(token: object) -> str:
    """Return a special token's text: files hold it bare or inside an object."""
    return str(token.get("content", "")) if isinstance(token, Mapping) else str(token)

"""Tokenizers of runs, and their tables of texts."""

from functools import lru_cache
from typing import Final

import msgspec

from buffer.inspect.rules.token_text import TokenTable
from buffer.tokenizers.models import RunTokenizer, TokenizerFile
from buffer.tokenizers.rules import MOST_FILE_BYTES, Texts
from runs.lifecycle.models import Run
from web import zstd
from web.rules.errors import NotFound

TABLES: Final = 4
"""Tables that a process keeps; one of 262,144 tokens has 25 MB."""


class NoTokenizer(NotFound):
    """The run has no tokenizer."""

    code = "no_tokenizer"
    title = "No tokenizer"


def tokenizer_of(run: Run) -> RunTokenizer:
    """Return the tokenizer of a run.

    Raises:
        NoTokenizer: If it has none.
    """
    rows = RunTokenizer.objects.select_related("file").defer("file__content", "file__texts")
    found = rows.filter(run=run).first()
    if found is None:
        raise NoTokenizer(f"{run.name} has no tokenizer; upload one with PUT")
    return found


def tokenizer_file(run: Run) -> bytes:
    """Return the `tokenizer.json` of a run.

    Raises:
        NoTokenizer: If it has none.
    """
    content = TokenizerFile.objects.filter(pk=tokenizer_of(run).file_id)
    return _plain(content.values_list("content", flat=True).get())


def uploaded_table(run: Run) -> TokenTable | None:
    """Return the texts of a run's tokens; None if the run has no tokenizer."""
    of_run = RunTokenizer.objects.filter(run=run)
    sha256 = of_run.values_list("file_id", flat=True).first()
    try:
        return None if sha256 is None else _table(sha256)
    except TokenizerFile.DoesNotExist:  # replaced and removed since
        return None


@lru_cache(maxsize=TABLES)
def _table(sha256: str) -> TokenTable:
    stored = TokenizerFile.objects.filter(pk=sha256).values_list("texts", flat=True).get()
    return msgspec.msgpack.decode(_plain(stored), type=Texts).table(sha256)


def _plain(stored: bytes | memoryview) -> bytes:
    return zstd.ZstdDecompressor().decompress(stored, 4 * MOST_FILE_BYTES)

"""Store the tokenizers of runs."""

import hashlib
from datetime import datetime

import msgspec
from django.db import transaction
from django.db.models import Exists, OuterRef

from buffer.inspect.services import renew_digests
from buffer.tokenizers.models import RunTokenizer, TokenizerFile
from buffer.tokenizers.queries import tokenizer_of
from buffer.tokenizers.rules import texts_of
from runs.events.services import record_event
from runs.lifecycle.models import Run
from web import zstd


def set_tokenizer(
    *, run: Run, content: bytes, actor: str, now: datetime
) -> tuple[RunTokenizer, bool]:
    """Store the `tokenizer.json` of a run, in place of an earlier one.

    The same file for the same run changes nothing. The texts of its groups are renewed in the
    background.

    Returns:
        The tokenizer, and whether the run had none.

    Raises:
        TokenizerTooLarge: If the file or its vocabulary is too large.
        InvalidTokenizer: If it is not a tokenizer.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    before = RunTokenizer.objects.filter(run=run).values_list("file_id", flat=True).first()
    if before == sha256:
        return tokenizer_of(run), False
    file = TokenizerFile.objects.filter(pk=sha256).first()
    if file is None:
        texts = texts_of(content)
        file = TokenizerFile(
            sha256=sha256,
            size_bytes=len(content),
            tokens=texts.tokens,
            content=zstd.compress(content),
            texts=zstd.compress(msgspec.msgpack.encode(texts)),
            created_at=now,
        )
    with transaction.atomic():
        # An existing row is updated, which locks it against its removal.
        TokenizerFile.objects.bulk_create(
            [file], update_conflicts=True, unique_fields=["sha256"], update_fields=["size_bytes"]
        )
        RunTokenizer.objects.update_or_create(
            run=run, defaults={"file": file, "set_by": actor[:200], "set_at": now}
        )
        record_event(
            run_id=run.pk,
            kind="tokenizer_set",
            message=f"tokenizer of {file.tokens} tokens"
            + ("" if before is None else ", in place of another one"),
            actor=actor,
            details={"sha256": sha256, "before": before, "tokens": file.tokens},
            now=now,
        )
        renew_digests(run.pk)
    if before is not None:
        remove_unused_tokenizers()
    return tokenizer_of(run), before is None


@transaction.atomic
def remove_unused_tokenizers() -> int:
    """Remove the files that no run uses; return their number."""
    users = RunTokenizer.objects.filter(file_id=OuterRef("pk"))
    unused = TokenizerFile.objects.filter(~Exists(users))
    locked = unused.select_for_update(skip_locked=True).values_list("pk", flat=True)
    # Asked again: a run may have taken the file into use before its row was locked.
    return unused.filter(pk__in=[*locked]).delete()[0]

"""Helpers for the tests of archives."""

from pathlib import Path
from typing import Any

from buffer.archive.rules import Window, window
from buffer.archive.services.export import ExportReport, export_run
from buffer.archive.services.restore import RestoreReport, restore_archive
from buffer.batches.services.leases import lease_batch
from buffer.batches.services.settlement import acknowledge_batch
from buffer.ingest.schemas.groups_json import decode_group
from buffer.ingest.services.pushes import accept_groups
from buffer.items.rules.states import ItemKind
from buffer.payloads.services.contents import batch_contents
from runs.lifecycle.models import Run
from runs.lifecycle.rules import Registration
from runs.lifecycle.services.registry import register_environment, register_trainer
from tests.buffer_factories import body, group
from tests.factories import NOON, make_run

EVERYTHING = window()


def make_words() -> Run:
    run = make_run(name="words", kind="outside")
    register(run)
    for name in ("math", "code"):
        register_environment(
            run_id=run.pk,
            desired_name=name,
            weight=1.0,
            max_token_length=64,
            group_size=2,
            min_batch_allocation=None,
            now=NOON,
        )
    return Run.objects.get(pk=run.pk)


def register(run: Run) -> None:
    register_trainer(
        run_id=run.pk,
        identity="alice",
        registration=Registration(batch_size=2, max_token_len=64),
        now=NOON,
    )


def push_groups(run: Run, count: int, *, tokens: int = 5, **fields: Any) -> None:
    groups = [decode_group(body(group(mark=m, tokens=tokens, **fields))) for m in range(count)]
    accept_groups(run=run, groups=groups, producer="bob", now=NOON)


def train(run: Run, steps: int = 1) -> list[bytes]:
    """Train on batches; return the bytes of their items in order."""
    seen = []
    for _ in range(steps):
        lease = lease_batch(run_id=run.pk, identity="alice")
        assert lease is not None
        kind = ItemKind(lease.batch.kind)
        seen += [content.content for content in batch_contents(kind, lease.batch.pk)]
        acknowledge_batch(run_id=run.pk, batch_id=lease.batch.pk, fence=lease.batch.fence)
    return seen


def export(run: Run, path: Path, window: Window = EVERYTHING) -> ExportReport:
    return export_run(run=run, window=window, path=path, now=NOON)


def restore(path: Path, name: str, window: Window = EVERYTHING) -> RestoreReport:
    return restore_archive(path=path, run_name=name, window=window, actor="carol", now=NOON)

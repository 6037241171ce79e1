"""Faults in the code of the server, which a campaign must find: each replaces one text."""

# ruff: noqa: E501 texts of other files
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.server import ROOT

NETWORK: Final = ("network: cut_answer", "network: half_open")
COPIED: Final = ("platform", "runs", "rollouts", "buffer", "client", "manage.py", "pyproject.toml")
SQL: Final = "buffer/sql/queries.sql"
LEASES: Final = "buffer/batches/services/leases.py"
SETTLEMENT: Final = "buffer/batches/services/settlement.py"
DELIVERIES: Final = "buffer/batches/rules/deliveries.py"
BATCHES: Final = "buffer/batches/api/batches.py"
PUSHES: Final = "buffer/ingest/services/pushes.py"
STORAGE: Final = "buffer/ingest/services/storage.py"
IDEMPOTENCY: Final = "buffer/ingest/services/idempotency.py"


@dataclass(frozen=True, slots=True)
class Mutation:
    """A fault of the server.

    Attributes:
        name: What goes wrong.
        path: File below the root of the repository.
        old: Text that occurs once.
        new: Its replacement.
        faults: Names of the faults under which it shows; none if it always does.
    """

    name: str
    path: str
    old: str
    new: str
    faults: tuple[str, ...] = ()


MUTATIONS: Final = (
    Mutation(
        "leased groups stay queued",
        SQL,
        "SET state = 'leased', batch_id = %(batch)s, position = p.place - 1",
        "SET state = 'queued', batch_id = %(batch)s, position = p.place - 1",
    ),
    Mutation("a second lease keeps the fence", SQL, "fence = fence + 1,", "fence = fence,"),
    Mutation(
        "an old fence acknowledges",
        SETTLEMENT,
        "if batch.fence != fence:",
        "if batch.fence < fence:",
    ),
    Mutation(
        "an acknowledged batch is served again",
        LEASES,
        "state IN ('leased', 'returned') ORDER BY ordinal",
        "state IN ('leased', 'returned', 'confirmed') ORDER BY ordinal",
    ),
    Mutation(
        "ordinals skip every second number",
        SQL,
        "UPDATE runs_run SET served_steps = %(ordinal)s WHERE",
        "UPDATE runs_run SET served_steps = %(ordinal)s + 1 WHERE",
    ),
    Mutation(
        "the newest groups are served first",
        SQL,
        "AND COALESCE(env_id, -1) = w.env_id\n    ORDER BY id LIMIT w.length\n) g\n\n-- groups_by_size",
        "AND COALESCE(env_id, -1) = w.env_id\n    ORDER BY id DESC LIMIT w.length\n) g\n\n-- groups_by_size",
    ),
    Mutation(
        "shards overlap by one group",
        DELIVERIES,
        "return range(_border(ends, rank, world_size), _border(ends, rank + 1, world_size))",
        "return range(max(0, _border(ends, rank, world_size) - 1), _border(ends, rank + 1, world_size))",
    ),
    Mutation(
        "shards leave out the last group",
        DELIVERIES,
        "return range(_border(ends, rank, world_size), _border(ends, rank + 1, world_size))",
        "return range(_border(ends, rank, world_size), _border(ends, rank + 1, world_size) - 1)",
    ),
    Mutation(
        "half of an acknowledged batch stays leased",
        SQL,
        "WHERE batch_id = %(batch)s AND state = %(source)s::text\n",
        "WHERE batch_id = %(batch)s AND state = %(source)s::text AND position % 2 = 0\n",
    ),
    Mutation(
        "the ledger counts each change twice",
        SQL,
        "    SUM(items), SUM(sequences), SUM(size_bytes)\nFROM changes",
        "    2 * SUM(items), SUM(sequences), SUM(size_bytes)\nFROM changes",
    ),
    Mutation(
        "a key is forgotten",
        IDEMPOTENCY,
        '        cursor.execute(SQL["store_key"], record, prepare=True)\n',
        "",
        NETWORK,
    ),
    Mutation(
        "a replayed key stores again",
        SQL,
        "WHERE run_id = %s AND key = %s\n",
        "WHERE run_id = %s AND key = %s AND created_at > now()\n",
        NETWORK,
    ),
    Mutation(
        "a follower gets its last item again",
        SQL,
        "AND (i.written_in, i.id) > (%(written_in)s::text::xid8, %(item)s::bigint)\nAND i.written_in < pg_snapshot_xmin(pg_current_snapshot())\nAND NOT EXISTS",
        "AND (i.written_in, i.id) >= (%(written_in)s::text::xid8, %(item)s::bigint)\nAND i.written_in < pg_snapshot_xmin(pg_current_snapshot())\nAND NOT EXISTS",
    ),
    Mutation(
        "a follower reads the newest items",
        SQL,
        "ORDER BY i.written_in, i.id LIMIT %(count)s",
        "ORDER BY i.written_in DESC, i.id DESC LIMIT %(count)s",
    ),
    Mutation(
        "an interrupted answer counts as delivered",
        DELIVERIES,
        "            return NextAction.SEND_AGAIN\n        if self.sender_is_alive is None",
        "            return NextAction.CONFIRM\n        if self.sender_is_alive is None",
        NETWORK,
    ),
    Mutation(
        "a delivered batch is sent again",
        DELIVERIES,
        "            return NextAction.CONFIRM\n",
        "            return NextAction.SEND_AGAIN\n",
    ),
    Mutation(
        "the last group of a push is dropped",
        PUSHES,
        "arrivals = [plan.classify(group) for group in groups if group.sequences]",
        "arrivals = [plan.classify(group) for group in groups if group.sequences][: len(groups) - 1 or 1]",
    ),
    Mutation(
        "an acknowledged batch counts as dropped",
        SQL,
        "UPDATE {table} i SET state = %(to)s::text, drop_reason = %(reason)s::text,",
        "UPDATE {table} i SET state = replace(%(to)s::text, 'served', 'dropped'), drop_reason = %(reason)s::text,",
    ),
    Mutation(
        "an outage is answered 500",
        "platform/config/errors.py",
        "    if outages.is_outage(sys.exc_info()[1]):\n        return unavailable(request)\n",
        "",
        ("kill PostgreSQL",),
    ),
    Mutation(
        "an outage has no Retry-After",
        "buffer/atropos/api/view.py",
        '    response["Retry-After"] = str(outages.RETRY_AFTER_SECONDS)\n',
        "",
        ("kill PostgreSQL",),
    ),
    Mutation(
        "a commit does not wait for the disk",
        "platform/config/embedded/postgres.py",
        '            "unix_socket_permissions": "0700",',
        '            "unix_socket_permissions": "0700",\n            "synchronous_commit": "off",\n            "wal_writer_delay": "10s",',
        ("kill PostgreSQL",),
    ),
    Mutation(
        "the answer of Atropos leaves out a group",
        "buffer/batches/rules/batch_bytes.py",
        "[part for item in items for part in (separator, item.content)][1:]",
        "[part for item in items[1:] for part in (separator, item.content)][1:]",
    ),
    Mutation(
        "a batch gets the scores of another group",
        BATCHES,
        "    uses = uses_of(batch)[places.start : places.stop] if batch.sampler else []\n",
        "    uses = uses_of(batch)[places.start : places.stop] if batch.sampler else []\n"
        "    stored = [*stored[1:], stored[0]]\n",
    ),
    Mutation(
        "a published version is not kept",
        "runs/weights/services.py",
        "Run.objects.filter(pk=run_id).update(policy_step=manifest.step)",
        "Run.objects.filter(pk=run_id).update(policy_step=max(0, manifest.step - 1))",
    ),
    Mutation(
        "a push is stored without its key's lock",
        IDEMPOTENCY,
        "        if not free:\n",
        "        if False:\n",
        ("network: half_open", "stop all web processes"),
    ),
)


def mutated_tree(folder: Path, mutation: Mutation) -> Path:
    """Copy the server's code, with a mutation, and return the copy."""
    root = folder / "mutated"
    left_out = shutil.ignore_patterns("__pycache__", "node_modules", "*.pyc")
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=left_out)
        else:
            root.mkdir(exist_ok=True)
            shutil.copy(source, root / name)
    (root / "frontend").mkdir()
    for path in (ROOT / "frontend").iterdir():
        if path.name not in {"node_modules", "src", "dist"} and path.name != "__pycache__":
            target = root / "frontend" / path.name
            shutil.copytree(path, target) if path.is_dir() else shutil.copy(path, target)
    (root / "frontend" / "dist").symlink_to(ROOT / "frontend" / "dist")
    path = root / mutation.path
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise AssertionError(
            f"{mutation.path} has {text.count(mutation.old)} times: {mutation.old}"
        )
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return root

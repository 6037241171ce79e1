"""History of a campaign: each call of its clients, each fault, in JSON lines."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

Mark = tuple[int, int]
"""Client and number of a group: its content follows from them."""
Span = tuple[int, int, int]
"""Client, first number and count of groups: most pushes and batches are a few spans."""
Outcome = Literal["begin", "ok", "refused", "unknown"]
"""`refused`: an answer that states that nothing was stored; `unknown`: no answer, or 5xx."""


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Begin or end of one call.

    Attributes:
        at: Seconds of the monotonic clock of the machine, the same in all processes.
        client: Number of the client; -1 for the campaign itself.
        op: ``push``, ``lease``, ``ack``, ``follow``, ``publish``, ``weights``, ``fault``, or a
            verb of the operator: ``pause``, ``resume``, ``create``, ``drain``, ``drained``.
        call: Number of the call, unique in the client.
        outcome: State of the call.
        run: Name of the run.
        status: HTTP status; 0 without an answer.
        retry_after: Whether the answer has the header ``Retry-After``.
        is_keyed: Whether a push has an ``Idempotency-Key``.
        spans: The groups of a push, or those received, in order.
        damaged: Received groups whose content differs from the one that was pushed.
        batch: Id of a batch.
        ordinal: Ordinal of a batch.
        fence: Fence of a lease.
        shard: Rank and number of ranks of a trainer.
        version: Version of weights, or position of a follower.
        digest: SHA-256 of received content.
        text: Name of a fault, or message of an error.
    """

    at: float
    client: int
    op: str
    call: int
    outcome: Outcome
    run: str = ""
    status: int = 0
    retry_after: bool = False
    is_keyed: bool = True
    spans: tuple[Span, ...] = ()
    damaged: int = 0
    batch: str = ""
    ordinal: int = -1
    fence: int = -1
    shard: tuple[int, int] = (0, 1)
    version: int = -1
    digest: str = ""
    text: str = ""

    @property
    def marks(self) -> Iterator[Mark]:
        """The groups of `spans`, one by one."""
        return (
            (client, number)
            for client, first, count in self.spans
            for number in range(first, first + count)
        )

    @property
    def groups(self) -> int:
        """Number of groups in `spans`."""
        return sum(count for _, _, count in self.spans)


def spans_of(marks: Iterable[Mark]) -> tuple[Span, ...]:
    """Return groups as spans, in their order."""
    spans: list[Span] = []
    for client, number in marks:
        if spans and spans[-1][0] == client and sum(spans[-1][1:]) == number:
            spans[-1] = (client, spans[-1][1], spans[-1][2] + 1)
        else:
            spans.append((client, number, 1))
    return tuple(spans)


class History:
    """Appended file of one process; each event is written at once, so that `kill -9` keeps it."""

    def __init__(self, folder: Path, client: int) -> None:
        """Open the file of a client."""
        self._client = client
        self._call = time.time_ns()  # a restarted client continues in the same file
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file: Final = os.open(folder / f"{client}.jsonl", flags, 0o644)

    def begin(self, op: str, **fields: object) -> int:
        """Record the begin of a call, and return its number."""
        self._call += 1
        self._write(op, self._call, "begin", fields)
        return self._call

    def end(self, op: str, call: int, outcome: Outcome, **fields: object) -> None:
        """Record the end of a call."""
        self._write(op, call, outcome, fields)

    def _write(self, op: str, call: int, outcome: Outcome, fields: dict[str, Any]) -> None:
        marks: Iterable[Mark] = fields.pop("marks", ())
        event = Event(
            at=time.monotonic(),
            client=self._client,
            op=op,
            call=call,
            outcome=outcome,
            spans=spans_of(marks),
            **fields,
        )
        os.write(self._file, msgspec.json.encode(event) + b"\n")


class HistoryReader:
    """Reader of the histories of all clients in a folder, which may still grow."""

    def __init__(self, folder: Path) -> None:
        """Start at the begin of each file."""
        self._folder = folder
        self._offsets: dict[Path, int] = {}
        self._decoder = msgspec.json.Decoder(Event)

    def read(self) -> list[Event]:
        """Return the further events in the order of their times.

        An incomplete last line is left out until it is complete.
        """
        events = [event for path in self._folder.glob("*.jsonl") for event in self._further(path)]
        return sorted(events, key=lambda event: event.at)

    def _further(self, path: Path) -> Iterator[Event]:
        with path.open("rb") as file:
            file.seek(self._offsets.get(path, 0))
            content = file.read()
        size = content.rfind(b"\n") + 1
        self._offsets[path] = self._offsets.get(path, 0) + size
        for line in content[:size].splitlines():
            yield self._decoder.decode(line)

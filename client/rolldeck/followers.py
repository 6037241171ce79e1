"""Read along with everything that a run accepts, without taking anything from its trainers."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final, Literal, Self
from urllib.parse import quote

import msgspec

from rolldeck.batches import FragmentView
from rolldeck.closing import Closing
from rolldeck.errors import InvalidAnswer
from rolldeck.http import Call, Connection
from rolldeck.wire import FOLLOW_TYPE, FollowAnswer, FollowHead, Fragment, InvalidMessage

__all__ = ["Followed", "Follower", "FollowerState"]

ENDED: Final = frozenset({"completed", "stopped", "failed"})


class FollowerState(msgspec.Struct, frozen=True, kw_only=True):
    """Where a follower is.

    Attributes:
        cursor: Place of the last item it has confirmed.
        lag: Items behind that place, counted to 100,000.
    """

    name: str
    cursor: str
    lag: int


class Followed:
    """Items of a run in the order in which they were accepted, decoded when first looked at."""

    def __init__(self, head: FollowHead, items: Sequence[bytes]) -> None:
        self.head = head
        self.items = items

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Return the items in an encoded :class:`rolldeck.wire.FollowAnswer`.

        Raises:
            InvalidMessage: If `body` is something else.
        """
        try:
            answer = msgspec.msgpack.decode(body, type=FollowAnswer)
        except msgspec.DecodeError as error:
            raise InvalidMessage(f"no answer to a follower: {error}") from error
        return cls(answer.follower, answer.items)

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def fragments(self) -> tuple[FragmentView, ...]:
        """The items of a fleet run."""
        return tuple(
            FragmentView(msgspec.msgpack.decode(item, type=Fragment)) for item in self.items
        )

    @cached_property
    def groups(self) -> tuple[dict[str, Any], ...]:
        """The items of an outside run, as Atropos' ``/batch`` answers them."""
        return tuple(msgspec.json.decode(item) for item in self.items)


class Follower(Closing):
    """A named reader of a run; needs the scope ``trainer``. Not for many threads.

    The loop this is made for, which goes on where it stopped however it ended::

        with Follower(url, "demo", token, name="archive") as follower:
            follower.begin(start="earliest")
            for items in follower:
                keep(items.groups)

    Items are confirmed when the next ones are asked for. Each comes at least once: those of a
    loop that died come again. The loop ends when the run has ended and all was read.
    """

    def __init__(
        self,
        url: str,
        run: str,
        token: str | None = None,
        *,
        name: str,
        connection: Connection | None = None,
    ) -> None:
        """Send nothing yet.

        Args:
            url: The platform, as ``http://host:8000``.
            run: Name of the run.
            token: With the scope ``trainer``, for this run.
            name: Of the follower; who uses the same name reads from the same place.
            connection: Used instead of one of its own, which `close` would end.
        """
        self._owns_connection = connection is None
        self._connection = connection or Connection(url, token)
        self._run = f"/api/runs/{quote(run, safe='')}"
        self._root = f"{self._run}/followers/{quote(name, safe='')}"

    def close(self) -> None:
        """Close the sockets; the follower keeps its place on the platform."""
        if self._owns_connection:
            self._connection.close()

    def begin(
        self,
        *,
        start: Literal["earliest", "latest"] = "earliest",
        env_id: int | None = None,
        environment: str = "",
        min_score: float | None = None,
    ) -> FollowerState:
        """Make the follower, or find it where it was.

        Args:
            start: Where a new one begins: with all that is kept, or with what comes from now on.
            env_id: Of groups, only those of this environment.
            environment: Of fragments, only those of this environment.
            min_score: Of groups, only those with at least this mean score.

        Raises:
            Conflict: If there is one of this name that reads something else.
        """
        wanted = {
            "start": start,
            "env_id": env_id,
            "environment": environment,
            "min_score": min_score,
        }
        return self._state(Call(method="PUT", path=self._root, json=wanted))

    def state(self) -> FollowerState:
        """Return where the follower is."""
        return self._state(Call(method="GET", path=self._root))

    def fetch(self, count: int = 64, wait_seconds: float = 0.0) -> Followed | None:
        """Return the next items that are not confirmed, or None if none came in time.

        Args:
            count: At most so many, 1 to 1024.
            wait_seconds: For the first of them, 0 to 60.
        """
        call = Call(
            method="POST",
            path=f"{self._root}/fetch",
            json={"count": count, "wait_seconds": wait_seconds},
            accept=FOLLOW_TYPE,
            wait_seconds=wait_seconds,
        )
        answer = self._connection.send(call)
        return None if answer.status_code == 204 else Followed.decode(answer.content)

    def ack(self, items: Followed) -> FollowerState:
        """Confirm items, so that those after them come next.

        Raises:
            Conflict: If the follower has confirmed later ones already.
        """
        body = {"cursor": items.head.cursor}
        return self._state(Call(method="POST", path=f"{self._root}/ack", json=body))

    def forget(self) -> None:
        """Delete the follower and its place."""
        self._connection.send(Call(method="DELETE", path=self._root))

    def __iter__(self) -> Iterator[Followed]:
        """Yield items until the run has ended, confirming each lot when the next is asked for."""
        while True:
            # Asked before the look: what came after it is seen by the next look.
            ended = self._status() in ENDED
            items = self.fetch(wait_seconds=0 if ended else 30)
            if items is not None:
                yield items
                self.ack(items)
            elif ended:
                return

    def _status(self) -> str:
        answer = self._connection.json(Call(method="GET", path=self._run))
        return str(answer.get("status")) if isinstance(answer, dict) else ""

    def _state(self, call: Call) -> FollowerState:
        raw = self._connection.json(call)
        try:
            return msgspec.convert(raw, FollowerState)
        except msgspec.ValidationError as error:
            raise InvalidAnswer(status=200, code="bad_answer", detail=str(error)) from error

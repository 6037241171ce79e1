"""Read all items that a run accepts, without taking them from its trainers."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal, Self
from urllib.parse import quote

import msgspec

from rolldeck.batches import FragmentView
from rolldeck.client import ENDED
from rolldeck.errors import InvalidMessageError
from rolldeck.http import Call, Connection, PlatformClient
from rolldeck.wire import (
    FOLLOW_TYPE,
    FollowAnswer,
    FollowHead,
    Fragment,
)

__all__ = ["Followed", "Follower", "FollowerState"]


class FollowerState(msgspec.Struct, frozen=True, kw_only=True):
    """Position of a follower.

    Attributes:
        cursor: Position of the last acknowledged item.
        lag: Number of items after that position, counted up to 100,000.
    """

    name: str
    cursor: str
    lag: int


class Followed:
    """Items of a run in order of acceptance, decoded on first access."""

    def __init__(self, head: FollowHead, items: Sequence[bytes]) -> None:
        self.head = head
        self.items = items

    @classmethod
    def decode(cls, body: bytes) -> Self:
        """Return the items in an encoded :class:`rolldeck.wire.FollowAnswer`.

        Raises:
            InvalidMessageError: If `body` is not an encoded answer.
        """
        try:
            answer = msgspec.msgpack.decode(body, type=FollowAnswer)
        except msgspec.DecodeError as error:
            raise InvalidMessageError(f"not a follower's answer: {error}") from error
        return cls(answer.follower, answer.items)

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def fragments(self) -> tuple[FragmentView, ...]:
        """The items of a fleet run that steps environments.

        Raises:
            InvalidMessageError: If the items are groups.
        """
        try:
            return tuple(
                FragmentView(msgspec.msgpack.decode(item, type=Fragment)) for item in self.items
            )
        except msgspec.DecodeError as error:
            raise InvalidMessageError(f"not fragments: {error}; groups are in `groups`") from error

    @cached_property
    def groups(self) -> tuple[dict[str, Any], ...]:
        """The items of an outside run or of lessons, in the format of Atropos' ``/batch``.

        Raises:
            InvalidMessageError: If the items are fragments.
        """
        try:
            return tuple(msgspec.json.decode(item, type=dict[str, Any]) for item in self.items)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            problem = f"not groups: {error}; fragments are in `fragments`"
            raise InvalidMessageError(problem) from error


class Follower(PlatformClient):
    """A named reader of a run; needs the scope ``trainer``. Not thread-safe.

    The intended loop, which continues after the last acknowledged item when restarted::

        with Follower(url, "demo", token, name="archive") as follower:
            follower.begin(start="earliest")
            for items in follower:
                keep(items.groups)

    Items are acknowledged when the next ones are requested. Each is delivered at least once: items
    of a crashed loop are delivered again. The loop ends when the run has ended and all is read.
    """

    def __init__(
        self,
        url: str | None = None,
        run: str = "",
        token: str | None = None,
        *,
        name: str,
        connection: Connection | None = None,
    ) -> None:
        """Configure the follower without sending a request.

        Args:
            url: URL of the platform, as ``http://host:8000``; ``ROLLDECK_URL`` by default.
            run: Name of the run.
            token: Token with the scope ``trainer`` for this run; ``ROLLDECK_TOKEN`` by
                default.
            name: Name of the follower; readers with the same name share its position.
            connection: Existing connection to use; `close` leaves it open.
        """
        super().__init__(url, run, token, connection)
        self._path = f"{self._root}/followers/{quote(name, safe='')}"

    def begin(
        self,
        *,
        start: Literal["earliest", "latest"] = "earliest",
        env_id: int | None = None,
        environment: str = "",
        min_score: float | None = None,
    ) -> FollowerState:
        """Create the follower, or return the existing one.

        Args:
            start: Start of a new follower: the earliest retained item, or only new items.
            env_id: For groups, only those of this environment.
            environment: For fragments, only those of this environment.
            min_score: For groups, only those with at least this mean score.

        Raises:
            ConflictError: If a follower of this name has other parameters.
        """
        body = {
            "start": start,
            "env_id": env_id,
            "environment": environment,
            "min_score": min_score,
        }
        return self._connection.decoded(
            Call(method="PUT", path=self._path, json=body), FollowerState
        )

    def state(self) -> FollowerState:
        """Return the position of the follower."""
        return self._connection.decoded(Call(method="GET", path=self._path), FollowerState)

    def fetch(self, count: int = 64, wait_seconds: float = 0.0) -> Followed | None:
        """Return the next unacknowledged items, or None if none arrive in time.

        Args:
            count: Maximum number of items, 1 to 1024.
            wait_seconds: Maximum wait for the first item, 0 to 60.
        """
        call = Call(
            method="POST",
            path=f"{self._path}/fetch",
            json={"count": count, "wait_seconds": wait_seconds},
            accept=FOLLOW_TYPE,
            wait_seconds=wait_seconds,
        )
        answer = self._connection.send(call)
        return None if answer.status == 204 else Followed.decode(answer.data)

    def ack(self, items: Followed) -> FollowerState:
        """Acknowledge items, so that the following ones come next.

        Raises:
            ConflictError: If the follower has already acknowledged later items.
        """
        body = {"cursor": items.head.cursor}
        call = Call(method="POST", path=f"{self._path}/ack", json=body)
        return self._connection.decoded(call, FollowerState)

    def forget(self) -> None:
        """Delete the follower and its position."""
        self._connection.send(Call(method="DELETE", path=self._path))

    def __iter__(self) -> Iterator[Followed]:
        """Yield items until the run has ended; acknowledge each set when the next is requested."""
        while True:
            # Read first: items accepted after this status are seen by the next fetch.
            run = self._connection.decoded(Call(method="GET", path=self._root), dict[str, Any])
            ended = run.get("status") in ENDED
            items = self.fetch(wait_seconds=0 if ended else 30)
            if items is not None:
                yield items
                self.ack(items)
            elif ended:
                return

"""Send stored bytes as they are, and know whether the last one left.

"Left" means handed to the connection: the server waits until what came before is out of its own
buffer, and hears of a client that hangs up, before it gives the last byte away. So no client can
take an answer for whole that was noted as cut. What lies in the buffers of the two kernels (a
few megabytes at most) counts as sent; a trainer that lost such bytes says so by registering
again.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.http import HttpResponse

Note = Callable[[], None]


class StoredAnswer(HttpResponse):
    """An answer in several parts, which are not joined on their way to the socket."""

    def __init__(self, parts: Sequence[bytes], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.parts = list(parts)
        # Where Django keeps the chunks of a body, for servers that know no parts; it joins them
        # to count them, unless told.
        self._container = self.parts
        self.headers["Content-Length"] = str(sum(map(len, self.parts)))


class NotedAnswer(StoredAnswer):
    """A stored answer whose end is noted: `on_sent` or `on_cut` is called once."""

    def __init__(
        self, parts: Sequence[bytes], *, on_sent: Note, on_cut: Note, **kwargs: Any
    ) -> None:
        super().__init__(parts, **kwargs)
        self._notes: dict[bool, Note] | None = {True: on_sent, False: on_cut}

    def note(self, *, is_sent: bool) -> None:
        """Say how it ended; only the first word counts."""
        notes, self._notes = self._notes, None
        if notes is not None:
            notes[is_sent]()

    def close(self) -> None:
        """Take the answer for sent when its server has not said otherwise."""
        self.note(is_sent=True)
        super().close()

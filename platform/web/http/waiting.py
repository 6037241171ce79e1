"""Long polling: delay a response without holding a thread."""

import time
from collections.abc import Callable
from typing import Any, cast

from django.conf import settings
from django.core.handlers.exception import response_for_exception
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from web.http.views import ApiView
from web.live import wakeups
from web.live.wakeups import POLL_SECONDS, WaitQueue

Poll = Callable[[], HttpResponseBase | None]
"""Reads the database once; None if there is no response yet."""


class Waiting(HttpResponse):
    """Pending response. The server calls `poll` at each turn, and `last` at the deadline.

    Attributes:
        queue: Wait queue of the request; a successful read lets the next in the queue read.
        until: Deadline on the monotonic clock, at which `last` is called.
        poll: Reads once; never raises.
        last: Returns the response at the deadline; never raises.
    """

    def __init__(self, *, queue: WaitQueue, until: float, poll: Poll, last: Poll) -> None:
        super().__init__(status=204)
        self.queue = queue
        self.until = until
        self.poll = poll
        self.last = last


class WaitingView(ApiView):
    """A view with a delayed response."""

    serves_machines = True

    def wait(self, queue: WaitQueue, *, seconds: float, poll: Poll, last: Poll) -> HttpResponseBase:
        """Return the response of `poll`, or a :class:`Waiting` for a later one.

        Args:
            queue: Wait queue of the request; changes of its parts trigger further reads.
            seconds: Maximum wait; limited by ROLLDECK_MAX_WAIT_SECONDS.
            poll: As :data:`Poll`.
            last: Returns the response at the deadline, never None.
        """
        answer = poll()
        if answer is not None:
            return answer
        seconds = min(seconds, settings.ROLLDECK_MAX_WAIT_SECONDS)
        if seconds <= 0:
            return cast("HttpResponseBase", last())
        return Waiting(
            queue=queue,
            until=time.monotonic() + seconds,
            poll=self._guarded(poll),
            last=self._guarded(last),
        )

    def _guarded(self, poll: Poll) -> Poll:
        def answer() -> HttpResponseBase | None:
            try:
                return poll()
            except Exception as error:  # noqa: BLE001 as REST framework around a view
                try:
                    return cast("HttpResponseBase", self.handle_exception(error))
                except Exception as unexpected:  # noqa: BLE001 as Django around a view
                    return response_for_exception(self.request, unexpected)

        return answer

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Wait in this thread if the server does not support pending responses."""
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        if not isinstance(response, Waiting) or getattr(request, "may_wait", False):
            return response
        while True:
            mark = wakeups.mark(response.queue.run_id)
            answer = response.poll()
            if answer is not None:
                return answer
            left = response.until - time.monotonic()
            if left <= 0:
                return cast("HttpResponseBase", response.last())
            connection.close()  # a waiting request needs none
            wakeups.wait(mark, min(left, POLL_SECONDS))

"""Hold an answer back until there is something to say, without holding a thread."""

import time
from collections.abc import Callable
from typing import Any, cast

from django.conf import settings
from django.core.handlers.exception import response_for_exception
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.views import APIView

from runs.live import wakeups
from runs.live.turns import LOOK_AGAIN_SECONDS, Line

Look = Callable[[], HttpResponseBase | None]
"""Look into the database once; None when there is nothing to answer yet."""


class Waiting(HttpResponse):
    """No answer yet. Whoever serves the request calls `look` at its turn, and `last` at the end.

    Attributes:
        line: Where the request stands; one look that answers lets the next in line look.
        until: Moment of the monotonic clock at which `last` is called.
        look: Looks once; never raises.
        last: Gives the answer when the time is over; never raises.
    """

    def __init__(self, *, line: Line, until: float, look: Look, last: Look) -> None:
        super().__init__(status=204)
        self.line = line
        self.until = until
        self.look = look
        self.last = last


class WaitingView(APIView):
    """A view whose answer may take a while."""

    def wait(self, line: Line, *, seconds: float, look: Look, last: Look) -> HttpResponseBase:
        """Return what `look` answers at once, else a :class:`Waiting` for its later answers.

        Args:
            line: Where to stand; changes of its parts are reasons to look again.
            seconds: How long to wait at most; the deck's own limit may be less.
            look: As :data:`Look`.
            last: Answers when the time is over; it must not return None.
        """
        answer = look()
        if answer is not None:
            return answer
        seconds = min(seconds, settings.ROLLDECK_MAX_WAIT_SECONDS)
        if seconds <= 0:
            return cast("HttpResponseBase", last())
        return Waiting(
            line=line,
            until=time.monotonic() + seconds,
            look=self._guarded(look),
            last=self._guarded(last),
        )

    def _guarded(self, look: Look) -> Look:
        def answer() -> HttpResponseBase | None:
            try:
                return look()
            except Exception as error:  # noqa: BLE001 what REST framework does around a view
                return self._answer_to(error)

        return answer

    def _answer_to(self, error: Exception) -> HttpResponseBase:
        try:
            return cast("HttpResponseBase", self.handle_exception(error))
        except Exception as unexpected:  # noqa: BLE001 what Django does around a view
            return response_for_exception(self.request, unexpected)

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Wait here, in this thread, when the server of the request cannot do better."""
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        if isinstance(response, Waiting) and not getattr(request, "may_wait", False):
            return _block(response)
        return response


def _block(waiting: Waiting) -> HttpResponseBase:
    while True:
        ticket = wakeups.ticket(waiting.line.run_id)
        answer = waiting.look()
        if answer is not None:
            return answer
        left = waiting.until - time.monotonic()
        if left <= 0:
            return cast("HttpResponseBase", waiting.last())
        connection.close()  # others need it more than a request that waits
        wakeups.wait(ticket, min(left, LOOK_AGAIN_SECONDS))

"""API views of followers, which read everything that a run accepts."""

from typing import Final

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from buffer.batches.api.answers import StoredAnswer
from buffer.batches.rules.batch_bytes import group_form, groups_as, json_answer, msgpack_answer
from buffer.followers import queries as followers
from buffer.followers.models import Follower
from buffer.followers.rules import Cursor
from buffer.followers.services import Filter, confirm_read, follow, unfollow
from buffer.items.api import AnyAccept
from buffer.items.queries import kind_of
from buffer.items.rules.states import ItemKind
from buffer.replay import schemas
from rolldeck.wire import FOLLOW_TYPE, FollowHead
from runs.access.api.permissions import readable_by, scoped
from runs.lifecycle.models import Run
from runs.lifecycle.queries import readable_run, run_named
from web.http.bodies import answer, read
from web.http.openapi import msgpack_of, problems
from web.http.views import ApiView
from web.http.waiting import WaitingView
from web.live.wakeups import WaitQueue

FOLLOW_ANSWERS: Final = {
    (200, FOLLOW_TYPE): msgpack_of("FollowAnswer"),
    (200, "application/json"): schemas.JsonFollowed,
}


def _row(run: Run, follower: Follower) -> schemas.FollowerRow:
    return schemas.FollowerRow(
        name=follower.name,
        env_id=follower.env_id,
        environment=follower.environment,
        min_score=follower.min_score,
        cursor=Cursor(int(follower.cursor_written_in), follower.cursor_id).token(),
        lag=followers.lag(run, follower),
        created_at=follower.created_at,
        acked_at=follower.acked_at,
    )


class FollowersView(ApiView):
    """The followers of a run."""

    permission_classes = [readable_by("trainer")]
    serves_machines = True

    @extend_schema(
        operation_id="followers_list",
        responses={200: schemas.FollowerList},
        tags=["followers"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List followers.

        By name, with the lag of each.
        """
        found = readable_run(run)
        rows = [_row(found, follower) for follower in followers.of_run(found)]
        return answer(schemas.FollowerList(results=rows, next=None))


class FollowerView(ApiView):
    """One follower of a run."""

    permission_classes = [scoped("trainer")]
    serves_machines = True

    @extend_schema(
        operation_id="followers_get",
        responses={200: schemas.FollowerRow},
        tags=["followers"],
    )
    def get(self, request: Request, run: str, follower: str) -> HttpResponse:
        """Get a follower.

        With its lag.
        """
        found = readable_run(run)
        return answer(_row(found, followers.named(found, follower)))

    @extend_schema(
        operation_id="followers_put",
        request=schemas.PutFollower,
        responses={200: schemas.FollowerRow, **problems(409)},
        tags=["followers"],
    )
    def put(self, request: Request, run: str, follower: str) -> HttpResponse:
        """Create a follower.

        An existing follower keeps its position.
        """
        body = read(request, schemas.PutFollower)
        found = run_named(run)
        only = Filter(env_id=body.env_id, environment=body.environment, min_score=body.min_score)
        made = follow(run=found, name=follower, start=body.start, only=only, now=timezone.now())
        return answer(_row(found, made))

    @extend_schema(
        operation_id="followers_delete",
        responses={204: None},
        tags=["followers"],
    )
    def delete(self, request: Request, run: str, follower: str) -> HttpResponse:
        """Delete a follower."""
        unfollow(run=run_named(run), name=follower)
        return HttpResponse(status=204)


class FetchFollowedView(WaitingView):
    """Items that a follower has not acknowledged yet."""

    permission_classes = [scoped("trainer")]
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="followers_fetch",
        request=schemas.FetchFollowed,
        responses={**FOLLOW_ANSWERS, 204: None, **problems(409, 410)},
        tags=["followers"],
    )
    def post(self, request: Request, run: str, follower: str) -> HttpResponseBase:
        """Fetch followed items.

        Waits for the first item; unacknowledged items are delivered again.
        """
        body = read(request, schemas.FetchFollowed)
        found = run_named(run)

        def read_once() -> HttpResponseBase | None:
            reader = followers.named(found, follower)
            chunk = followers.read_on(found, reader, count=body.count)
            return None if chunk is None else _bytes(request, found, reader, chunk)

        return self.wait(
            WaitQueue(run_id=found.pk, key=("follower", follower), parts=frozenset({"queue"})),
            seconds=body.wait_seconds,
            poll=read_once,
            last=lambda: HttpResponse(status=204),
        )


def _bytes(
    request: Request, run: Run, follower: Follower, chunk: followers.StreamChunk
) -> HttpResponse:
    kind = kind_of(run)
    head = FollowHead(
        name=follower.name,
        kind="groups" if kind is ItemKind.GROUPS else "fragments",
        count=len(chunk.ids),
        cursor=chunk.cursor.token(),
        item_ids=chunk.ids,
    )
    accept = request.headers.get("Accept", "")
    if kind is ItemKind.FRAGMENTS:
        parts = msgpack_answer(head, chunk.contents, key="follower")
        return StoredAnswer(parts, content_type=FOLLOW_TYPE)
    if "application/json" in accept:
        parts = json_answer(head, chunk.contents, key="follower")
        return StoredAnswer(parts, content_type="application/json")
    items = groups_as(group_form(accept), chunk.contents)
    return StoredAnswer(msgpack_answer(head, items, key="follower"), content_type=FOLLOW_TYPE)


class AckFollowedView(ApiView):
    """Acknowledgement of items that a follower has read."""

    permission_classes = [scoped("trainer")]
    serves_machines = True

    @extend_schema(
        operation_id="followers_ack",
        request=schemas.AckFollowed,
        responses={200: schemas.FollowerRow, **problems(409)},
        tags=["followers"],
    )
    def post(self, request: Request, run: str, follower: str) -> HttpResponse:
        """Acknowledge followed items.

        Advances the follower to the cursor; an older cursor is refused.
        """
        body = read(request, schemas.AckFollowed)
        found = run_named(run)
        reader = confirm_read(run=found, name=follower, cursor=body.cursor, now=timezone.now())
        return answer(_row(found, reader))

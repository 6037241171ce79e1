"""API views of a group's content, in bounded parts."""

from typing import Final

from django.http import HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from msgspec import Struct
from rest_framework.request import Request

from buffer.ingest.schemas.groups import ScoredData
from buffer.inspect.queries import group_contents, group_lists
from buffer.inspect.rules.sequence_views import (
    MOST_MESSAGES,
    Conversation,
    NoSuchSequence,
    SequenceList,
    SequenceWindow,
    conversation,
    summaries,
    window,
)
from buffer.inspect.rules.token_text import TokenTable
from buffer.inspect.schemas import GroupRow
from runs.access.api.permissions import Readers
from runs.lifecycle.models import Run
from runs.lifecycle.queries import readable_run
from web.http.bodies import answer, whole_number
from web.http.openapi import between, problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

MOST_TOKENS: Final = 1 << 17
MOST_CHARACTERS: Final = 1 << 20
# Content never changes, but permissions do: browsers revalidate each time.
_CACHE: Final = {"Cache-Control": "private, no-cache"}


def _row(run: str, group: int) -> tuple[Run, GroupRow]:
    found = readable_run(run)
    return found, group_lists.group_row(found.pk, group)


def _tag(row: GroupRow, table: TokenTable | None) -> str:
    # The last part is the version of the answers' format; change it to invalidate cached answers.
    return f'"group-{row.id}-{row.size_bytes}-{"" if table is None else table.tag}-4"'


def _cached(
    request: Request, row: GroupRow, table: TokenTable | None = None
) -> HttpResponseBase | None:
    """Return 304 if the client's ETag matches, else None."""
    tag = _tag(row, table)
    if tag not in request.headers.get("If-None-Match", ""):
        return None
    return HttpResponseNotModified(headers={"ETag": tag, **_CACHE})


def _answer(row: GroupRow, message: Struct, table: TokenTable | None = None) -> HttpResponse:
    response = answer(message)
    for name, value in (_CACHE | {"ETag": _tag(row, table)}).items():
        response[name] = value
    return response


class SequencesView(ApiView):
    """The sequences of a group."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="sequences_list",
        responses={200: SequenceList, **problems(410, 422)},
        tags=["groups"],
    )
    def get(self, request: Request, run: str, group: int) -> HttpResponseBase:
        """List a group's sequences.

        By index: score, length, turns and anomalies, without tokens.
        """
        found, row = _row(run, group)
        table = group_contents.token_table(found)
        if kept := _cached(request, row, table):
            return kept
        listed = summaries(group_contents.opened(row), has_text=table is not None)
        return _answer(row, listed, table)


class SequenceView(ApiView):
    """One sequence of a group."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="sequences_get",
        parameters=[
            OpenApiParameter("start", between(0, 1 << 31)),
            OpenApiParameter("count", between(1, MOST_TOKENS)),
        ],
        responses={200: SequenceWindow, **problems(410, 422)},
        tags=["groups"],
    )
    def get(self, request: Request, run: str, group: int, sequence: int) -> HttpResponseBase:
        """Get a sequence's tokens.

        A range of tokens with text, mask, logprobs and advantages.
        """
        start = whole_number(request, "start", default=0, at_least=0, at_most=1 << 31)
        count = whole_number(request, "count", default=4096, at_least=1, at_most=MOST_TOKENS)
        found, row = _row(run, group)
        table = group_contents.token_table(found)
        if kept := _cached(request, row, table):
            return kept
        tokens = window(
            group_contents.opened(row),
            sequence,
            start=start or 0,
            count=count or 4096,
            pieces=None if table is None else table.pieces,
        )
        return _answer(row, tokens, table)


class MessagesView(ApiView):
    """The messages of a sequence."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="sequences_messages",
        parameters=[
            OpenApiParameter("characters", between(1, MOST_CHARACTERS)),
            OpenApiParameter(
                "message", between(0, 1 << 20), description="Only the message with this index."
            ),
            *page_parameters(default=MOST_MESSAGES, most=MOST_MESSAGES),
        ],
        responses={200: Conversation, **problems(410, 422)},
        tags=["groups"],
    )
    def get(self, request: Request, run: str, group: int, sequence: int) -> HttpResponseBase:
        """List a sequence's messages.

        In order; each text, and the other fields of each message, are cut to `characters`.
        """
        most = whole_number(
            request, "characters", default=20_000, at_least=1, at_most=MOST_CHARACTERS
        )
        only = whole_number(request, "message", default=None, at_least=0, at_most=1 << 20)
        page = page_of(request, int, default=MOST_MESSAGES, most=MOST_MESSAGES)
        _, row = _row(run, group)
        if kept := _cached(request, row):
            return kept
        opened = group_contents.opened(row)
        if sequence >= opened.sequences:
            raise NoSuchSequence(
                f"sequence {sequence} does not exist: the group has {opened.sequences}, from 0"
            )
        messages = conversation(opened, sequence, characters=most or 1, only=only, page=page)
        return _answer(row, messages)


class GroupContentView(ApiView):
    """The whole content of a group."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="groups_content",
        parameters=[OpenApiParameter("characters", between(1, MOST_CHARACTERS))],
        responses={
            (200, "application/json"): ScoredData,
            (200, "text/plain"): OpenApiTypes.STR,
            **problems(409, 410, 422),
        },
        tags=["groups"],
    )
    def get(self, request: Request, run: str, group: int) -> HttpResponse:
        """Download a trajectory group.

        Atropos JSON; with `characters` only its beginning, as text. Simulated data is refused
        to tokens unless the run serves it.
        """
        most = whole_number(
            request, "characters", default=None, at_least=1, at_most=MOST_CHARACTERS
        )
        found, row = _row(run, group)
        content = group_contents.as_json(row)
        if most is not None:
            text = content[: most * 4].decode(errors="replace")[:most]
            return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=_CACHE)
        name = f"{found.name}-group-{row.id}.json"
        return HttpResponse(
            content,
            content_type="application/json",
            headers=_CACHE | {"Content-Disposition": f'attachment; filename="{name}"'},
        )

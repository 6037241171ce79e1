"""Store the last calls of each client of the API."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from django.db import connection, transaction

from runs.access.models.calls import ApiCall
from runs.access.rules.call_digest import Call
from web.rules.storable_text import storable

FORGOTTEN_AFTER: Final = timedelta(days=7)
LONGEST_PATH: Final = 500
LONGEST_TEXT: Final = 2000
MOST_FIELDS: Final = 20
_FORGET: Final = """
    DELETE FROM runs_apicall WHERE client = %s AND id < (
        SELECT MIN(id) FROM (
            SELECT id FROM runs_apicall WHERE client = %s ORDER BY id DESC LIMIT %s) newest)"""


@transaction.atomic
def keep_calls(calls: Sequence[Call], *, kept_of_each: int) -> None:
    """Store calls, and delete all but the last `kept_of_each` per client."""
    ApiCall.objects.bulk_create(_row(call) for call in calls)
    clients = {call.client for call in calls}
    with connection.cursor() as cursor:
        cursor.executemany(_FORGET, [(client, client, kept_of_each) for client in clients])


def forget_calls(*, now: datetime) -> int:
    """Delete calls of clients inactive for :data:`FORGOTTEN_AFTER`; return their number."""
    return ApiCall.objects.filter(at__lt=now - FORGOTTEN_AFTER).delete()[0]


def _row(call: Call) -> ApiCall:
    return ApiCall(
        client=call.client[:200],
        at=datetime.fromtimestamp(call.at, UTC),
        method=call.method[:8],
        path=storable(call.path[:LONGEST_PATH]),
        route=call.route[:200],
        status=call.status,
        duration_ms=call.duration_ms,
        stands_for=call.stands_for,
        replayed=call.replayed,
        problem=_problem(call.content),
    )


def _problem(content: bytes) -> dict[str, Any]:
    """Return the parsed refusal, as far as readable: code, detail, and fields."""
    if not content:
        return {}
    try:
        said = msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {"detail": storable(content[:LONGEST_TEXT].decode(errors="replace"))}
    errors = said.get("errors")
    fields = [each for each in errors if isinstance(each, dict)] if isinstance(errors, list) else []
    return {
        "code": storable(str(said.get("code", ""))),
        "detail": storable(str(said.get("detail", ""))[:LONGEST_TEXT]),
        "errors": [
            {
                name: storable(str(each.get(name, ""))[:LONGEST_TEXT])
                for name in ("field", "message")
            }
            for each in fields[:MOST_FIELDS]
        ],
    }

"""Selection bias of a run, from its recently dropped and served items."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from django.db import connection

from buffer.batches.rules import bias
from buffer.batches.schemas import BiasAnswer
from buffer.items.rules.states import ItemState
from runs.lifecycle.models import Environment, Run
from web.sql import statements_of

SQL: Final = statements_of("buffer")

# Newest items per state: enough for every quantile, and read in milliseconds.
ITEMS_AT_MOST: Final = 5000


def bias_of(run: Run, *, window_seconds: float) -> BiasAnswer:
    """Return the selection bias of the items that arrived within the window.

    Reads at most the newest :data:`ITEMS_AT_MOST` items of each state.
    """
    names = dict(Environment.objects.filter(run=run).values_list("env_id", "wandb_name"))
    limits: dict[str, Any] = {
        "run": run.pk,
        "seconds": window_seconds,
        "most": ITEMS_AT_MOST,
        "rows": 10 * ITEMS_AT_MOST,
    }
    with connection.cursor() as cursor:
        cursor.execute(
            SQL["newest_groups"] if run.takes_groups else SQL["newest_fragments"], limits
        )
        rows = cursor.fetchall()
    named = {str(env_id): name for env_id, name in names.items()}
    admitted = _items(rows, named)
    dropped = _items([row for row in rows if row[0] == ItemState.DROPPED], named)
    served = _items([row for row in rows if row[0] == ItemState.SERVED], named)
    return BiasAnswer(
        admitted=_side(admitted),
        dropped=_side(dropped),
        served=_side(served),
        dropped_against_served=bias.distances(dropped, served),
        served_against_admitted=bias.distances(served, admitted),
        summary=bias.sentence(dropped, served, unit="groups" if run.takes_groups else "fragments"),
    )


def _items(rows: Sequence[tuple[Any, ...]], names: dict[str, str]) -> bias.Items:
    return bias.Items(
        length=np.array([row[1] for row in rows], dtype=np.float64),
        score=np.array([np.nan if row[2] is None else row[2] for row in rows], dtype=np.float64),
        environments=[names.get(row[3] or "", row[3] or "") for row in rows],
    )


def _side(items: bias.Items) -> bias.BiasSide:
    counted, counts = np.unique(list(items.environments), return_counts=True)
    return bias.BiasSide(
        items=len(items.length),
        length=bias.summary(items.length),
        score=bias.summary(items.score),
        environments=dict(zip(counted.tolist(), counts.tolist(), strict=True)),
    )

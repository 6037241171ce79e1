"""Selection bias of a run, from its recently dropped and served items."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import mean
from typing import Any, Final

import numpy as np
from django.db import connection

from buffer.batches.rules import bias
from buffer.batches.schemas import BiasAnswer, FailedPrompt, ShortGroupBias
from buffer.items.models import ShortGroup
from buffer.items.rules.states import ItemState
from runs.config.rules.sections import least_group_size
from runs.lifecycle.models import Environment, Run
from web.sql import statements_of

SQL: Final = statements_of("buffer")

# Newest items per state: enough for every quantile, and read in milliseconds.
ITEMS_AT_MOST: Final = 5000
PROMPTS_AT_MOST: Final = 10


def bias_of(run: Run, *, window_seconds: float, now: datetime) -> BiasAnswer:
    """Return the selection bias of the items that arrived within the window before `now`.

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
    sequences = sum(row[4] for row in rows) if run.takes_groups else 0
    return BiasAnswer(
        short_groups=_short_groups(
            run, admitted, sequences=sequences, since=now - timedelta(seconds=window_seconds)
        ),
        admitted=_side(admitted),
        dropped=_side(dropped),
        served=_side(served),
        dropped_against_served=bias.distances(dropped, served),
        served_against_admitted=bias.distances(served, admitted),
        summary=bias.sentence(dropped, served, unit="groups" if run.takes_groups else "fragments"),
    )


def _short_groups(
    run: Run, admitted: bias.Items, *, sequences: int, since: datetime
) -> ShortGroupBias | None:
    """Return the bias of groups with failed rollouts; `sequences` are those of admitted groups."""
    newest = ShortGroup.objects.filter(run=run).order_by("-pk")[:ITEMS_AT_MOST]
    found = [one for one in newest if one.at >= since]
    if not found:
        return None
    items = bias.Items(
        length=np.array([max(one.tokens, default=np.nan) for one in found], dtype=np.float64),
        score=np.array([mean(one.rewards) if one.rewards else np.nan for one in found]),
        environments=[one.environment for one in found],
    )
    first = [
        bias.GroupSizes(len(one.rewards) - one.refilled, sum(one.failed.values())) for one in found
    ]
    kept = [len(one.rewards) for one in found if one.is_kept]
    failing = defaultdict[tuple[str, str], list[ShortGroup]](list)
    for one in found:
        failing[one.environment, one.example].append(one)
    prompts = [
        FailedPrompt(
            environment=environment,
            example=example,
            prompt=next((one.prompt for one in groups if one.prompt), ""),
            groups=len(groups),
            failed=sum(sum(one.failed.values()) for one in groups),
        )
        for (environment, example), groups in failing.items()
    ]
    # Named by lesson, while groups of the buffer have no environment.
    unnamed = replace(items, environments=[])
    return ShortGroupBias(
        groups=_side(items),
        kept=len(kept),
        failed=sum(one.failed for one in first),
        against_complete=bias.distances(unnamed, admitted),
        costs=bias.policy_costs(
            first,
            complete_rollouts=max(0, sequences - sum(kept)),
            least=least_group_size(run.config) if run.has_fleet else run.least_group_size,
        ),
        prompts=sorted(prompts, key=lambda one: -one.failed)[:PROMPTS_AT_MOST],
        summary=bias.sentence(
            unnamed,
            replace(admitted, environments=[]),
            unit="groups",
            names=("incomplete", "complete"),
        ),
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

"""Answer what the deck is made of, within about a second whatever is broken."""

import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
from celery import current_app
from django.conf import settings
from django.db.models import Sum
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from buffer.models import Segment
from config import pulse
from config.cluster import looks
from config.cluster.lookout import Lookout, Sight
from config.cluster.messages import (
    ActiveJob,
    BrokerPart,
    Cluster,
    DatabasePart,
    Deck,
    NodeWorkers,
    Part,
    PartState,
    ProcessRow,
    RayNode,
    RayPart,
    StoragePart,
    WorkerRow,
)
from config.versions import own_version, versions
from rollouts import jobs
from rollouts import selectors as rollout_selectors
from runs.api.bodies import answer
from runs.api.identity import caller_of, person_of
from runs.api.openapi import problems
from runs.api.permissions import Known, Readers
from runs.core import rights
from runs.models import DeckPart
from runs.selectors import deck

P = TypeVar("P", bound=Part)
WAIT_SECONDS: Final = 1.0
"""All parts together are waited for no longer than this."""
RAY_LOOK_SECONDS: Final = 5.0
_RAY_PROOF_SECONDS: Final = 90.0


class ClusterView(APIView):
    """The parts of the deck."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="cluster_show",
        responses={200: Cluster, **problems(401, 403)},
        tags=["deck"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Show processes, workers, Ray, database, broker and storage; addresses to administrators.

        Parts are looked at side by side for at most a second; one that does not answer is
        `unknown`, with what it said when it last did.
        """
        is_admin = rights.may_administer(caller_of(request))
        database, broker, workers, storage = lookouts = _lookouts(settings.REDIS_URL)
        for lookout in lookouts:
            lookout.begin()
        if settings.RAY_ADDRESS:
            _ray_lookout().begin()
        by = time.monotonic() + WAIT_SECONDS
        return answer(
            _cluster(
                database=database.sight(by=by),
                broker=broker.sight(by=by),
                workers=workers.sight(by=by),
                storage=storage.sight(by=by),
                is_admin=is_admin,
            )
        )


class DeckView(APIView):
    """Which deck this is."""

    permission_classes = [Known]

    @extend_schema(
        operation_id="deck_show", responses={200: Deck, **problems(401, 403)}, tags=["deck"]
    )
    def get(self, request: Request) -> HttpResponse:
        """Show the deck's version, its name, and how people come in."""
        person = person_of(request)
        return answer(
            Deck(
                version=own_version(),
                deployment=settings.ROLLDECK_DEPLOYMENT,
                colour=settings.ROLLDECK_DEPLOYMENT_COLOUR,  # type: ignore[arg-type] # one of these
                auth=settings.ROLLDECK_AUTH,  # type: ignore[arg-type]
                time_zone=settings.TIME_ZONE,
                password_address="/admin/password_change/"
                if person is not None and person.is_staff and person.has_usable_password()
                else None,
            )
        )


@cache
def _lookouts(redis_url: str) -> tuple[Lookout[Any], ...]:
    """Return who looks at the database, the broker, the workers and the storage."""
    return (
        Lookout(lambda: looks.database_figures(looks.database_params()), clock=timezone.now),
        Lookout(lambda: looks.broker_figures(redis_url), clock=timezone.now),
        Lookout(lambda: looks.active_jobs(current_app), clock=timezone.now),
        Lookout(looks.storage_figures, clock=timezone.now, fresh_seconds=10.0),
    )


@cache
def _ray_lookout() -> Lookout[None]:
    """Return who has a worker look at Ray; nobody waits for it."""
    return Lookout(jobs.ask_for_nodes, clock=timezone.now, fresh_seconds=RAY_LOOK_SECONDS)


def _cluster(
    *,
    database: Sight[dict[str, Any]],
    broker: Sight[dict[str, Any]],
    workers: Sight[dict[str, list[ActiveJob]]],
    storage: Sight[dict[str, Any]],
    is_admin: bool,
) -> Cluster:
    parts = list(DeckPart.objects.order_by("name"))
    kind, place = looks.storage_place()
    kept = Segment.objects.filter(dropped_at=None).aggregate(Sum("size_bytes"))
    return Cluster(
        at=timezone.now(),
        process_word_seconds=pulse.EVERY_SECONDS,
        web=[_process(part) for part in parts if part.kind == "web"],
        workers=[_worker(part, workers) for part in parts if part.kind == "worker"],
        clocks=[_process(part) for part in parts if part.kind == "clock"],
        jobs=Part(**_seen(workers, is_admin=is_admin)),
        ray=_ray(parts, is_admin=is_admin),
        database=_figured(
            DatabasePart,
            database,
            is_admin=is_admin,
            address=looks.database_address(looks.database_params()) if is_admin else None,
        ),
        broker=_figured(
            BrokerPart,
            broker,
            is_admin=is_admin,
            address=looks.broker_address(settings.REDIS_URL) if is_admin else None,
        ),
        storage=_figured(
            StoragePart,
            storage,
            is_admin=is_admin,
            kind=kind,
            place=place if is_admin else None,
            keep_free_bytes=settings.ROLLDECK_MIN_FREE_DISK_BYTES,
            kept_bytes=int(kept["size_bytes__sum"] or 0),
        ),
        placements=[
            NodeWorkers(node=node, run=run, workers=workers)
            for node, run, workers in rollout_selectors.workers_by_node()
        ],
        growth=deck.growth(
            keep_free_bytes=settings.ROLLDECK_MIN_FREE_DISK_BYTES, now=timezone.now()
        ),
        versions=versions(),
    )


def _seen(sight: Sight[Any], *, is_admin: bool) -> dict[str, Any]:
    return {
        "state": sight.state,
        "proven_at": sight.proven_at,
        "problem": _told(sight.problem, sight.state, is_admin=is_admin),
        "took_ms": sight.took_ms,
    }


def _told(problem: str, state: PartState, *, is_admin: bool) -> str:
    """Return a problem for this reader: what a library says of it names addresses."""
    return problem if is_admin or state != "down" else "it does not answer"


def _figured(
    part: Callable[..., P], sight: Sight[dict[str, Any]], *, is_admin: bool, **more: Any
) -> P:
    return part(**_seen(sight, is_admin=is_admin), **(sight.found or {}), **more)


def _process(part: DeckPart) -> ProcessRow:
    return ProcessRow(**_own(part))


def _own(part: DeckPart) -> dict[str, Any]:
    names = ("name", "host", "pid", "started_at", "proven_at", "version")
    own = {name: getattr(part, name) for name in names}
    return own | {"memory_bytes": part.details.get("memory_bytes")}


def _worker(part: DeckPart, sight: Sight[dict[str, list[ActiveJob]]]) -> WorkerRow:
    told = sight.found if sight.state == "up" else None
    return WorkerRow(
        **_own(part),
        queues=part.details.get("queues", []),
        concurrency=part.details.get("concurrency"),
        active=(told or {}).get(part.name),
    )


def _ray(parts: Iterable[DeckPart], *, is_admin: bool) -> RayPart:
    address = settings.RAY_ADDRESS
    if not address:
        problem = "RAY_ADDRESS is empty: this deck launches no fleets"
        return RayPart(state="absent", proven_at=None, problem=problem, took_ms=None)
    seen = next((one for one in parts if one.kind == "ray" and one.name == address), None)
    if seen is None:
        problem = "no worker has looked at it yet"
        return RayPart(state="unknown", proven_at=None, problem=problem, took_ms=None)
    is_fresh = (timezone.now() - seen.proven_at).total_seconds() < _RAY_PROOF_SECONDS
    state: PartState = "down" if seen.problem else "up" if is_fresh else "unknown"
    return RayPart(
        state=state,
        proven_at=seen.proven_at if seen.details else None,
        problem=_told(seen.problem, state, is_admin=is_admin),
        took_ms=None,
        address=address if is_admin else None,
        nodes=msgspec.convert(seen.details.get("nodes", []), list[RayNode]),
    )

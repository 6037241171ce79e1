"""API of episodes and their distribution."""

from typing import Final, cast

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from rollouts.control.api.queries import SERIES_PARAMETERS, series_page
from rollouts.episodes.queries import (
    Measure,
    episode_detail,
    episode_page,
    episode_spread,
    episode_summary,
)
from rollouts.episodes.schemas import (
    EpisodeDetail,
    Episodes,
    EpisodeSpread,
    EpisodeSummary,
)
from runs.access.api.permissions import Readers
from runs.lifecycle.queries import readable_run
from web.http import bodies
from web.http.openapi import between, problems
from web.http.views import ApiView

_OF: Final = OpenApiParameter("of", enum=["return", "length"], description="Default: `return`.")
_MODES: Final = ("", "train", "eval")


def _measure(request: Request) -> Measure:
    of = request.query_params.get("of", "return")
    if of not in ("return", "length"):
        raise bodies.InvalidBody("of", "must be return or length")
    return cast("Measure", of)


class EpisodeSpreadView(ApiView):
    """Distribution of episodes."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="episodes_spread",
        parameters=[
            _OF,
            OpenApiParameter("task", description="Only this environment or lesson."),
            OpenApiParameter(
                "mode", enum=["train", "eval"], description="Only training, or evaluation."
            ),
        ],
        responses={200: EpisodeSpread},
        tags=["episodes"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get the distribution of episodes.

        Returns or lengths over the life of the run.
        """
        mode = request.query_params.get("mode", "")
        if mode not in _MODES:
            raise bodies.InvalidBody("mode", "must be train or eval")
        found = episode_spread(
            readable_run(run),
            of=_measure(request),
            task=request.query_params.get("task", ""),
            mode=mode,
        )
        return bodies.answer(found)


class EpisodeView(ApiView):
    """One episode."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="episodes_get",
        parameters=[
            OpenApiParameter(
                "episode",
                required=True,
                description="Id of the episode: its slot, a slash and its number.",
            )
        ],
        responses={200: EpisodeDetail, **problems(503)},
        tags=["episodes"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get an episode.

        Return, end, and the stored fragments that hold its steps, in order.
        """
        episode = request.query_params.get("episode", "")
        if "\x00" in episode:
            raise bodies.InvalidBody("episode", "must not contain the NUL character")
        return bodies.answer(episode_detail(readable_run(run).pk, episode))


class EpisodesView(ApiView):
    """Statistics of ended episodes."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="episodes_list",
        parameters=SERIES_PARAMETERS,
        responses={200: Episodes},
        tags=["episodes"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List episode windows.

        Newest first.
        """
        after_id, page = series_page(request)
        return bodies.answer(episode_page(readable_run(run).pk, page, after_id=after_id))


class EpisodeSummaryView(ApiView):
    """Statistics of recent episodes over environments."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="episodes_summary",
        parameters=[
            OpenApiParameter(
                "seconds",
                between(1, 86_400),
                description="Seconds back from now: 1 to 86400, default 300.",
            )
        ],
        responses={200: EpisodeSummary},
        tags=["episodes"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get episode statistics.

        Recent episodes by environment and mode, and means over environments.
        """
        seconds = bodies.whole_number(request, "seconds", default=300, at_least=1, at_most=86_400)
        summary = episode_summary(readable_run(run).pk, seconds=seconds or 1, now=timezone.now())
        return bodies.answer(summary)

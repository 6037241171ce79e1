"""Answer in the one form that a view has, whatever the caller would have liked."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class OneForm(DefaultContentNegotiation):
    """Never answers 406: binary answers bypass the renderers, which only know JSON."""

    def select_renderer(
        self,
        request: Request,
        renderers: Iterable[BaseRenderer],
        format_suffix: str | None = None,
    ) -> Any:
        """Return the view's first renderer; views with several forms choose by themselves."""
        renderer = next(iter(renderers))
        return renderer, renderer.media_type

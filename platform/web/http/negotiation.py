"""Content negotiation that ignores the Accept header."""

from collections.abc import Iterable
from typing import Any

from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request


class SingleFormat(DefaultContentNegotiation):
    """Never responds 406: binary responses bypass the renderers, which only support JSON."""

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> Any:
        """Return the view's first renderer; views with several formats choose themselves."""
        renderer = next(iter(renderers))
        return renderer, renderer.media_type

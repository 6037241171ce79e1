"""The OpenAPI document, generated once per process: that takes half a second of a core."""

import threading
from typing import Final

from django.http import HttpResponse
from drf_spectacular.views import SpectacularJSONAPIView
from rest_framework.request import Request

from runs.access.api.permissions import Anyone

_documents: Final[dict[str, str | bytes]] = {}
_lock: Final = threading.Lock()


class ApiDocument(SpectacularJSONAPIView):
    """The document of the API, the same for every caller and query."""

    permission_classes = [Anyone]

    def _get_schema_response(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        kind = str(renderer.media_type)
        with _lock:  # concurrent first requests wait for one generator
            if kind not in _documents:
                data = super()._get_schema_response(request).data  # type: ignore[no-untyped-call]
                _documents[kind] = renderer.render(data, kind, {})
        return HttpResponse(_documents[kind], content_type=kind)

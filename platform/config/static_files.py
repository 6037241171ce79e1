"""Serve static files whole: under ASGI a stream of a file would be collected first anyway."""

from django.http import HttpRequest, HttpResponse
from whitenoise.middleware import WhiteNoiseMiddleware
from whitenoise.responders import StaticFile


class StaticFiles(WhiteNoiseMiddleware):
    """WhiteNoise, but for its streams.

    Its answer iterates over a file, which Django under ASGI collects in memory, with a warning,
    before it sends the first byte. The files are the built dashboard's and the admin's, of half a
    megabyte at most, so they are read at once and sent with their length.
    """

    @staticmethod
    def serve(static_file: StaticFile, request: HttpRequest) -> HttpResponse:
        """Return the answer to a request for a file, or for a part of it."""
        found = static_file.get_response(request.method, request.META)
        content = b""
        if found.file is not None:
            with found.file:
                content = found.file.read()
        response = HttpResponse(content, status=int(found.status))
        del response["Content-Type"]
        for name, value in found.headers:
            response[name] = value
        return response

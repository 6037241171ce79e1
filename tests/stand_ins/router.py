"""A router: requests go to several servers in turn, as behind one name."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.stand_ins.inference_servers import listening


class Router:
    """Reverse proxy of servers; those that cannot be reached are passed over."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self.answers = Counter[str]()
        """Number of answers by server."""
        self._turns = itertools.count()
        self.url = ""

    async def forward(self, request: Request) -> Response:
        """Return the response of the next server."""
        content = await request.body()
        for _ in self.urls:
            url = self.urls[next(self._turns) % len(self.urls)]
            try:
                # A connection of its own: vLLM closes connections after errors.
                async with httpx.AsyncClient(base_url=url, timeout=600) as http:
                    answer = await http.request(
                        request.method,
                        request.url.path,
                        content=content,
                        headers={"Content-Type": "application/json"},
                    )
            except httpx.TransportError:
                continue
            self.answers[url] += request.method == "POST"
            return Response(
                answer.content,
                answer.status_code,
                media_type=answer.headers.get("Content-Type"),
            )
        return JSONResponse({"error": {"message": "no server can be reached"}}, 503)


@contextmanager
def routed(urls: Sequence[str]) -> Iterator[Router]:
    """Serve a router in a thread."""
    router = Router(urls)
    app = Starlette(routes=[Route("/{path:path}", router.forward, methods=["GET", "POST"])])
    with listening(app) as router.url:
        yield router

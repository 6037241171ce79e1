"""Traffic of a tab."""

import gzip

from playwright.sync_api import Page, Response


class Traffic:
    """Bytes that a tab receives over HTTP and over its socket."""

    def __init__(self, page: Page) -> None:
        self.bytes = 0
        self.requests = 0
        self.scripts: dict[str, int] = {}
        self.packed: set[str] = set()
        self.fonts: dict[str, Response] = {}
        page.on("response", self._answered)
        page.on("websocket", lambda socket: socket.on("framereceived", self._heard))

    def _answered(self, response: Response) -> None:
        self.requests += 1
        if response.request.resource_type == "font":
            self.fonts[response.url] = response
        if response.request.resource_type == "script":
            # The budget is in gzip, whichever compression the server used.
            self.scripts[response.url] = len(gzip.compress(response.body(), 9))
            if response.headers.get("content-encoding") == "gzip":
                self.packed.add(response.url)
        else:
            self.bytes += int(response.headers.get("content-length", 0) or 0)

    def _heard(self, frame: str | bytes) -> None:
        self.bytes += len(frame)

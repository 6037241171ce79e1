"""Serve HTTP and websockets."""

import os

import django
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.sessions import CookieMiddleware
from django.urls import get_resolver, path

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")
django.setup(set_prefix=False)

from buffer.ingest.api import count_refused_request  # noqa: E402
from config.binding import refuse_dangers  # noqa: E402
from config.body_limits import BodyLimits  # noqa: E402 Django's applications load first
from config.compression import CompressedAnswers  # noqa: E402
from config.decompression import CompressedHandler  # noqa: E402
from config.machines import Machines  # noqa: E402
from config.outage_answers import OutageAnswers  # noqa: E402
from config.static_files import StaticFiles  # noqa: E402
from config.tracing import traced  # noqa: E402
from rolldeck.structs import prepare_structs  # noqa: E402
from runs.live.api import ControlConsumer, LiveConsumer  # noqa: E402
from web.http.push_answers import PushAnswers  # noqa: E402
from web.live.websocket_protocol import SocketOrigins  # noqa: E402

refuse_dangers()
# Views and their messages are loaded before threads decode the first requests.
_ = get_resolver().url_patterns
prepare_structs()
machines = Machines(CompressedHandler())  # type: ignore[arg-type] # Django has own ASGI types
limited = BodyLimits(machines, on_refusal=count_refused_request)
sockets = [
    path("ws/live", LiveConsumer.as_asgi()),
    path("ws/runs/<slug:run>/control", ControlConsumer.as_asgi()),
]
application = ProtocolTypeRouter(
    {
        "http": OutageAnswers(StaticFiles(traced(PushAnswers(CompressedAnswers(limited))))),
        # Consumers look up the session's user. A lookup here would repeat the query, and an outage
        # would end the handshake without a close code.
        "websocket": SocketOrigins(CookieMiddleware(URLRouter(sockets))),
    }
)

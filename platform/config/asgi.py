"""Serve HTTP and websockets."""

import os

from channels.auth import AuthMiddlewareStack
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.base")
http = get_asgi_application()

from buffer.api.delivery import Deliveries  # noqa: E402
from config.binding import refuse_dangers  # noqa: E402
from config.body_limits import BodyLimits  # noqa: E402 Django's applications load first
from config.compression import CompressedAnswers  # noqa: E402
from config.machines import Machines  # noqa: E402
from config.static_files import StaticFiles  # noqa: E402
from config.tracing import traced  # noqa: E402
from config.websocket_urls import websocket_urlpatterns  # noqa: E402

refuse_dangers()
machines = Machines(http)
application = ProtocolTypeRouter(
    {
        "http": StaticFiles(traced(Deliveries(CompressedAnswers(BodyLimits(machines))))),
        "websocket": AllowedHostsOriginValidator(
            AuthMiddlewareStack(URLRouter(websocket_urlpatterns))
        ),
    }
)

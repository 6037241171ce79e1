"""Entry point of the web server: the application, with heartbeats of the process."""

from config import heartbeats
from config.asgi import application

heartbeats.begin("web")

__all__ = ["application"]

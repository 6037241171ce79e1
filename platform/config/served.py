"""Entry point of the web server: the application, with heartbeats of the process."""

from config.asgi import application

from config import heartbeats  # isort: skip  Django's applications load with the line above

heartbeats.start("web")

__all__ = ["application"]

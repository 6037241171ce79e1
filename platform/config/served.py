"""What the web server serves: the application, in a process that says that it lives."""

from config.asgi import application

from config import pulse  # isort: skip  Django's applications load with the line above

pulse.begin("web")

__all__ = ["application"]

"""What the web server serves: the application, in a process that says that it lives."""

from config import pulse
from config.asgi import application

pulse.begin("web")

__all__ = ["application"]

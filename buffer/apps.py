"""Django app configuration of the buffer."""

from django.apps import AppConfig


class BufferConfig(AppConfig):
    """The buffer: stores trajectories between sampling and training."""

    name = "buffer"
    verbose_name = "Buffer"

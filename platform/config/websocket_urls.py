"""Websocket routes of the project."""

from django.urls import path

from runs.consumers import ControlConsumer, LiveConsumer

websocket_urlpatterns = [
    path("ws/live", LiveConsumer.as_asgi()),
    path("ws/runs/<slug:run>/control", ControlConsumer.as_asgi()),
]

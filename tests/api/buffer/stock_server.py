"""Server for a stock client, below one base URL."""

import json
from typing import Any

from django.test import Client

from tests.buffer_factories import ENVIRONMENT, REGISTRATION, body


class Server:
    """Server for a stock client, below one base URL."""

    def __init__(self, base: str = "") -> None:
        self.client = Client()
        self.base = base

    def get(self, path: str, content: Any = None, **headers: str) -> Any:
        extra = {} if content is None else {"data": body(content)}
        return self.client.generic(
            "GET", self.base + path, content_type="application/json", headers=headers, **extra
        )

    def post(self, path: str, content: Any, **headers: str) -> Any:
        data = content if isinstance(content, bytes) else body(content)
        return self.client.post(
            self.base + path, data=data, content_type="application/json", headers=headers
        )

    def batch(self, **headers: str) -> Any:
        response = self.get("/batch", **headers)
        assert response.status_code == 200
        return json.loads(response.content)["batch"]

    def register(self, **changed: Any) -> Any:
        return self.post("/register", REGISTRATION | changed).json()

    def register_env(self, **changed: Any) -> Any:
        return self.post("/register-env", ENVIRONMENT | changed).json()

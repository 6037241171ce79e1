"""Make Django's test clients use the host 127.0.0.1, like programs on the same machine.

Their default host `testserver` is foreign, and open mode rejects it.
"""

from typing import Any

from django.test import RequestFactory


def ask_for_loopback() -> None:
    """Change the default host of every test client."""
    given = RequestFactory._base_environ  # type: ignore[attr-defined]

    def local(self: Any, **request: Any) -> dict[str, Any]:
        environ: dict[str, Any] = given(self, **{"SERVER_NAME": "127.0.0.1", **request})
        return environ | self.defaults | request

    RequestFactory._base_environ = local  # type: ignore[attr-defined]

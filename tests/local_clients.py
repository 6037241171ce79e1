"""Make Django's test clients ask for 127.0.0.1, as the programs on a machine do.

Their own `testserver` is a foreign host, which open mode refuses.
"""

from typing import Any

from django.test import RequestFactory


def ask_for_loopback() -> None:
    """Change the default of every test client's host."""
    given = RequestFactory._base_environ  # type: ignore[attr-defined]

    def local(self: Any, **request: Any) -> dict[str, Any]:
        environ: dict[str, Any] = given(self, **{"SERVER_NAME": "127.0.0.1", **request})
        return environ | self.defaults | request

    RequestFactory._base_environ = local  # type: ignore[attr-defined]

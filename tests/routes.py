"""All routes of the server, from the URL resolver."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.urls import URLPattern, get_resolver


class Route(NamedTuple):
    """One URL pattern, with parameters in Django's notation."""

    address: str
    callback: Any

    @property
    def view(self) -> Any:
        """Class of the view; None for a plain function."""
        return getattr(self.callback, "cls", None)

    @property
    def methods(self) -> tuple[str, ...]:
        """Methods of the view; GET and POST for one that does not list them."""
        if self.view is None:
            return ("GET", "POST")
        return tuple(name for name in self.view().allowed_methods if name != "OPTIONS")


def routes(patterns: Any = None, prefix: str = "/") -> Iterator[Route]:
    """Yield every route, including those of included patterns."""
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        address = prefix + str(entry.pattern).removeprefix("^").removesuffix("$")
        if isinstance(entry, URLPattern):
            yield Route(address, entry.callback)
        else:
            yield from routes(entry.url_patterns, address)


def filled(address: str, values: dict[str, Any]) -> str:
    """Return a URL with a value for each of its parameters."""
    while "<" in address:
        before, _, rest = address.partition("<")
        parameter, _, after = rest.partition(">")
        address = f"{before}{values[parameter.rpartition(':')[2]]}{after}"
    return address

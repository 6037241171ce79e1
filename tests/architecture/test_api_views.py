"""Every view of the API has the base that frees requests and their bodies."""

from tests.routes import routes
from web.http.views import ApiView


def test_every_view_of_the_api_is_an_api_view() -> None:
    views = {route.view for route in routes() if route.view is not None}
    others = {view for view in views if not issubclass(view, ApiView)}

    assert len(views) > 100
    assert {view.__module__ for view in others} == {
        "config.api_document",
        "drf_spectacular.views",
    }

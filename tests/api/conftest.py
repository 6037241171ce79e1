"""Give tests of the API a person who operates runs."""

import pytest
from rest_framework.test import APIClient

from tests.factories import make_user


@pytest.fixture
def operator(db: None) -> APIClient:
    """Return a browser in which Olga is signed in, an operator."""
    client = APIClient()
    client.force_login(make_user(username="olga", role="operator"))
    return client

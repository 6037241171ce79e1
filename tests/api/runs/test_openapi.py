import io
import re

import pytest
from django.core.management import call_command
from django.test import Client


def test_the_openapi_schema_is_valid_and_complete() -> None:
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=io.StringIO())


@pytest.mark.django_db
def test_the_schema_and_its_page_are_served_to_everybody() -> None:
    schema = Client().get("/openapi.json").json()

    assert schema["paths"]["/api/runs"]["post"]["operationId"] == "runs_create"
    assert "RunDetail" in schema["components"]["schemas"]
    assert Client().get("/docs").status_code == 200


@pytest.mark.django_db
def test_the_api_page_loads_nothing_from_elsewhere() -> None:
    page = Client().get("/docs").content.decode()

    assert "swagger-ui" in page
    assert re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page) == []

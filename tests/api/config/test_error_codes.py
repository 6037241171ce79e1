"""The `type` of a problem leads to a row of the page of error codes."""

from urllib.parse import urlsplit

from django.test import Client


def test_the_type_of_a_problem_links_to_its_code() -> None:
    problem = Client().get("/api/v1/nothing").json()
    address = urlsplit(problem["type"])
    page = Client().get(address.path)

    assert (problem["code"], problem["status"]) == ("not_found", 404)
    assert page["Content-Type"].startswith("text/html")
    assert f'<tr id="{address.fragment}"><td>404</td>' in page.content.decode()

"""The bodies that fuzzers start from are accepted unchanged."""

import pytest
from django.test import Client

from tests.factories import bearer, make_run
from tests.valid_bodies import FLEET, RUN, VALID_BODIES

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_valid_body_is_accepted() -> None:
    make_run(name=RUN, kind="outside")
    make_run(name=FLEET, kind="fleet", epoch=1, policy_step=0)
    headers = bearer("env", "trainer", "worker")
    client = Client()
    answers = {}
    for body in VALID_BODIES:
        response = client.post(
            body.path, data=body.content, content_type=body.content_type, headers=headers
        )
        answers[body.name] = (response.status_code, response.content)
        if body.name == "register":  # environments may join once a batch has been asked for
            client.get(f"/atropos/{RUN}/batch", headers=headers)

    assert {name: answer for name, answer in answers.items() if answer[0] != 200} == {}
    assert len(answers) == len(VALID_BODIES) >= 40

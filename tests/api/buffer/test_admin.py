import pytest
from django.test import Client

from buffer.items.models import Batch, TrajectoryGroup
from tests.buffer_factories import REGISTRATION, body, fragment, group, push
from tests.factories import bearer, make_run, make_user

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin() -> Client:
    client = Client()
    user = make_user(username="alice", role="admin")
    user.is_superuser = True
    user.save()
    client.force_login(user)
    for path, content in (("/register", REGISTRATION), ("/scored_data", group(sequences=4))):
        client.post(path, data=body(content), content_type="application/json")
    b"".join(client.get("/batch"))
    run = make_run(name="alpha", epoch=1, policy_step=0)
    client.generic(
        "POST", "/api/v1/runs/alpha/fragments", push(fragment()), headers=bearer("worker", run=run)
    )
    return client


@pytest.mark.parametrize(
    "model", ["batch", "trajectorygroup", "fragmentchunk", "tally", "idempotencyrecord", "segment"]
)
def test_every_table_can_be_browsed(admin: Client, model: str) -> None:
    assert admin.get(f"/admin/buffer/{model}/").status_code == 200


def test_a_row_shows_the_first_part_of_its_payload(admin: Client) -> None:
    page = admin.get(f"/admin/buffer/trajectorygroup/{TrajectoryGroup.objects.get().pk}/change/")

    assert "masks" in page.content.decode()
    from buffer.items.models import FragmentChunk

    page = admin.get(f"/admin/buffer/fragmentchunk/{FragmentChunk.objects.get().pk}/change/")
    assert "behavior_logprob: float32 [4]" in page.content.decode()
    page = admin.get(f"/admin/buffer/batch/{Batch.objects.get().pk}/change/")
    assert page.status_code == 200

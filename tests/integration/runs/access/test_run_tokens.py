from datetime import timedelta

import pytest

from runs.access.models import ApiToken
from runs.access.services.tokens import (
    TokenNotFound,
    TokenTooShort,
    UnknownScope,
    adopt_bootstrap_token,
    authenticate,
    revoke_token,
)
from runs.events.models import RunEvent
from runs.lifecycle.models import Run
from tests.factories import NOON, make_run, make_token

SECOND = timedelta(seconds=1)


@pytest.mark.django_db
def test_only_the_hash_of_a_token_is_stored() -> None:
    token, text = make_token("trainer", "env")

    assert text.startswith(f"{token.prefix}_")
    assert len(text) == len("rd_12345678_") + 32
    row = ApiToken.objects.values().get()
    assert text not in str(row)
    assert row["scopes"] == ["env", "trainer"]


@pytest.mark.django_db
def test_a_token_is_valid_until_it_expires() -> None:
    _, text = make_token("env", expires_at=NOON + SECOND)

    assert authenticate(text=text, address=None, now=NOON) is not None
    assert authenticate(text=text, address=None, now=NOON + SECOND) is None


@pytest.mark.django_db
def test_a_revoked_token_is_refused_at_once_and_can_be_revoked_again() -> None:
    run = make_run()
    token, text = make_token("env", run=run)

    for _ in range(2):
        revoke_token(token_id=token.pk, actor="user:ada", now=NOON)

    assert authenticate(text=text, address=None, now=NOON) is None
    assert run.events.filter(kind="token_revoked").count() == 1


@pytest.mark.django_db
def test_a_token_of_an_archived_run_is_refused() -> None:
    run = make_run()
    _, text = make_token("env", run=run)

    Run.objects.filter(pk=run.pk).update(archived_at=NOON)

    assert authenticate(text=text, address=None, now=NOON) is None


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["", "rd_x", "\x00", "ü" * 1000])
def test_other_text_is_not_a_token(text: str) -> None:
    make_token("env")

    assert authenticate(text=text, address=None, now=NOON) is None


@pytest.mark.django_db
def test_the_last_use_is_updated_at_most_once_a_minute() -> None:
    token, text = make_token("env")

    for seconds, noted in [(0, 0), (59, 0), (60, 60), (61, 60)]:
        authenticate(text=text, address=None, now=NOON + seconds * SECOND)
        token.refresh_from_db()
        assert token.last_used_at == NOON + noted * SECOND


@pytest.mark.django_db
def test_checking_a_token_returns_its_run_and_writes_nothing(
    django_assert_num_queries: object,
) -> None:
    run = make_run()
    _, text = make_token("env", run=run)
    authenticate(text=text, address=None, now=NOON)

    # Reads bypass Django's query builder, so only writes are counted.
    with django_assert_num_queries(0):  # type: ignore[operator]
        token = authenticate(text=text, address=None, now=NOON)

        assert token is not None
        assert token.run == run


@pytest.mark.django_db
@pytest.mark.parametrize("scopes", [(), ("root",), ("env", "root")])
def test_a_token_without_scope_or_with_an_unknown_one_is_not_created(
    scopes: tuple[str, ...],
) -> None:
    with pytest.raises(UnknownScope):
        make_token(*scopes)

    assert not ApiToken.objects.exists()


@pytest.mark.django_db
def test_an_unknown_token_cannot_be_revoked() -> None:
    with pytest.raises(TokenNotFound):
        revoke_token(token_id=7, actor="user:ada", now=NOON)


@pytest.mark.django_db
def test_the_bootstrap_token_is_stored_once_over_restarts() -> None:
    first = adopt_bootstrap_token(text="sixteen letters!", now=NOON)
    second = adopt_bootstrap_token(text="sixteen letters!", now=NOON)

    assert first.pk == second.pk
    assert first.scopes == ["admin"]
    assert authenticate(text="sixteen letters!", address=None, now=NOON) == first


@pytest.mark.django_db
def test_another_bootstrap_token_revokes_the_one_before() -> None:
    first = adopt_bootstrap_token(text="sixteen letters!", now=NOON)
    _, created = make_token("admin")
    second = adopt_bootstrap_token(text="sixteen numerals", now=NOON)

    assert authenticate(text="sixteen letters!", address=None, now=NOON) is None
    assert authenticate(text="sixteen numerals", address=None, now=NOON) == second
    assert authenticate(text=created, address=None, now=NOON) is not None
    [event] = RunEvent.objects.filter(kind="token_revoked")
    assert (event.details["token"], event.reason) == (
        first.pk,
        "ROLLDECK_BOOTSTRAP_TOKEN has another value",
    )


@pytest.mark.django_db
def test_a_revoked_bootstrap_token_stays_revoked() -> None:
    token = adopt_bootstrap_token(text="sixteen letters!", now=NOON)
    revoke_token(token_id=token.pk, actor="user:ada", now=NOON)

    adopt_bootstrap_token(text="sixteen letters!", now=NOON)

    assert authenticate(text="sixteen letters!", address=None, now=NOON) is None


@pytest.mark.django_db
def test_a_short_bootstrap_token_is_refused() -> None:
    with pytest.raises(TokenTooShort):
        adopt_bootstrap_token(text="x" * 15, now=NOON)


@pytest.mark.django_db
def test_a_token_is_valid_in_its_networks_only() -> None:
    _, text = make_token("env", from_networks=["10.0.0.0/8"])

    def is_good(address: str | None) -> bool:
        return authenticate(text=text, address=address, now=NOON) is not None

    assert is_good("10.1.2.3")
    assert not is_good("192.168.0.1")
    assert not is_good(None)
    assert ApiToken.objects.get().last_used_at == NOON

"""One-time login links."""

from datetime import timedelta

import pytest

from runs.access.services.login_links import LINK_LIFETIME, make_login_link, redeem_login_token
from tests.factories import NOON, make_user

pytestmark = pytest.mark.django_db
LATER = NOON + timedelta(minutes=1)


def token_for_alice() -> str:
    return make_login_link(make_user(), now=NOON).partition("#")[2]


def test_a_token_is_redeemed_once() -> None:
    token = token_for_alice()
    user = redeem_login_token(token, now=LATER)

    assert user is not None
    assert user.get_username() == "alice"
    assert redeem_login_token(token, now=LATER + timedelta(seconds=1)) is None


def test_a_token_expires() -> None:
    assert redeem_login_token(token_for_alice(), now=NOON + LINK_LIFETIME) is None


def test_a_link_lives_for_at_most_ten_minutes() -> None:
    assert timedelta(minutes=5) <= LINK_LIFETIME <= timedelta(minutes=10)


@pytest.mark.parametrize(
    "change", [{"is_active": False}, {"password": "another"}, {"last_login": NOON}]
)
def test_a_change_of_the_account_ends_its_links(change: dict[str, object]) -> None:
    token = token_for_alice()
    type(make_user(username="bob")).objects.filter(username="alice").update(**change)

    assert redeem_login_token(token, now=LATER) is None


def test_sign_ins_within_one_second_end_links_as_well() -> None:
    user = make_user()
    user.last_login = NOON
    user.save()
    token = make_login_link(user, now=NOON).partition("#")[2]

    assert redeem_login_token(token, now=NOON + timedelta(milliseconds=1)) is not None
    assert redeem_login_token(token, now=NOON + timedelta(milliseconds=2)) is None


@pytest.mark.parametrize("token", ["", ":", "W10:x", "%%:x", "é:é", "MQ" * 5000 + ":x"])
def test_other_text_is_not_a_token(token: str) -> None:
    make_user()

    assert redeem_login_token(token, now=NOON) is None

"""Name the person whom seeded runs belong to."""

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

from config.seed.scale import ACTOR


def owner() -> User:
    """Return the person behind :data:`config.seed.scale.ACTOR`; with no password nobody is her."""
    person, _ = User.objects.get_or_create(
        username=ACTOR.removeprefix("user:"), defaults={"password": make_password(None)}
    )
    return person

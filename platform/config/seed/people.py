"""Owner of the sample runs."""

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User

from config.seed.scale import ACTOR


def owner() -> User:
    """Return the user of :data:`config.seed.scale.ACTOR`, who has no password."""
    person, _ = User.objects.get_or_create(
        username=ACTOR.removeprefix("user:"), defaults={"password": make_password(None)}
    )
    return person

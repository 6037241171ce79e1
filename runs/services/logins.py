"""Make links that sign a person in once."""

from django.contrib.auth.models import User
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.utils.http import urlsafe_base64_decode, urlsafe_base64_encode


class _OneTimeTokens(PasswordResetTokenGenerator):
    """Tokens whose hash covers the last sign-in, so that the first use ends them."""

    key_salt = "runs.services.logins"


_tokens = _OneTimeTokens()


def one_time_login_path(user: User) -> str:
    """Return the path of a link that signs `user` in once."""
    uid = urlsafe_base64_encode(str(user.pk).encode())
    return f"/login/once/{uid}.{_tokens.make_token(user)}"


def user_of_one_time_token(token: str) -> User | None:
    """Return whom `token` signs in, or None when it is wrong, used or too old."""
    uid, _, secret = token.partition(".")
    try:
        user = User.objects.filter(pk=urlsafe_base64_decode(uid).decode()).first()
    except ValueError:
        return None
    if user is None or not user.is_active or not _tokens.check_token(user, secret):
        return None
    return user

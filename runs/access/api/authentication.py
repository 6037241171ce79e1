"""Authentication of API requests by token (Bearer or Basic password) or session."""

from typing import Any

from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from runs.access.models import ApiToken
from runs.access.rules import MalformedCredentials, token_in
from runs.access.services.tokens import authenticate


class TokenUser:
    """A machine, as Django's user of the request."""

    is_authenticated = True
    is_anonymous = False
    is_active = True
    is_staff = False
    is_superuser = False
    pk = None
    id = None

    def __init__(self, token: ApiToken) -> None:
        self.username = f"token:{token.pk}"

    def __str__(self) -> str:
        return self.username


class TokenAuthentication(BaseAuthentication):
    """Accept `Authorization: Bearer <token>` or Basic with any name and the token."""

    def authenticate(self, request: Request) -> tuple[Any, ApiToken] | None:
        """Return the machine and its token, or None without a token."""
        try:
            text = token_in(request.headers.get("Authorization", ""))
        except MalformedCredentials as error:
            raise AuthenticationFailed(str(error)) from error
        if text is None:
            return None
        token = authenticate(text=text, address=request.META.get("REMOTE_ADDR"), now=timezone.now())
        if token is None:
            raise AuthenticationFailed(
                "The token is unknown, expired or revoked, its owner is deactivated, its run is "
                "archived, or it is not valid from this address."
            )
        return TokenUser(token), token

    def authenticate_header(self, request: Request) -> str:
        """Return the WWW-Authenticate header of 401 responses."""
        return 'Bearer realm="rolldeck"'

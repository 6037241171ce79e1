"""API views that create, list and revoke tokens."""

from datetime import timedelta

from django.contrib.auth.models import User
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from runs.access.api.identity import identity_of, person_of
from runs.access.api.permissions import Admins
from runs.access.models import ApiToken, TokenIssuer
from runs.access.queries import role_of, token_fields, tokens
from runs.access.schemas import CreatedToken, CreateToken, TokenList
from runs.access.services.tokens import create_token, revoke_token
from runs.lifecycle.queries import run_named
from web.http.bodies import answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.views import ApiView


class TokensView(ApiView):
    """The API tokens."""

    permission_classes = [Admins]

    @extend_schema(
        operation_id="tokens_list",
        responses={200: TokenList},
        tags=["tokens"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List tokens.

        Newest first, without secrets.
        """
        return answer(TokenList(results=tokens(), next=None))

    @extend_schema(
        operation_id="tokens_create",
        request=CreateToken,
        responses={201: CreatedToken, **problems(404)},
        tags=["tokens"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Create a token.

        The secret is in this answer only.
        """
        body, now = read(request, CreateToken), timezone.now()
        owner, issuer = _source_of_rights(request)
        lifetime = body.expires_in_seconds
        token, text = create_token(
            name=body.name,
            scopes=body.scopes,
            run_id=run_named(body.run).pk if body.run else None,
            created_by=owner,
            issuer=issuer,
            expires_at=now + timedelta(seconds=lifetime) if lifetime else None,
            from_networks=body.networks,
            actor=identity_of(request),
            now=now,
        )
        token.owner_role = role_of(owner) if owner else None
        created = CreatedToken(**token_fields(token), token=text)
        response = answer(created, status=201)
        response["Cache-Control"] = "no-store"
        return response


def _source_of_rights(request: Request) -> tuple[User | None, TokenIssuer]:
    """Return the owner and the issuer of a new token: those of the requesting token."""
    if isinstance(request.auth, ApiToken):
        return request.auth.created_by, TokenIssuer(request.auth.issuer)
    return person_of(request), TokenIssuer.PERSON


class TokenView(ApiView):
    """One token."""

    permission_classes = [Admins]

    @extend_schema(
        operation_id="tokens_revoke",
        parameters=[REASON],
        request=None,
        responses={204: None},
        tags=["tokens"],
    )
    def delete(self, request: Request, token: int) -> HttpResponse:
        """Revoke a token.

        It is refused from the next request on.
        """
        revoke_token(
            token_id=token,
            actor=identity_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)

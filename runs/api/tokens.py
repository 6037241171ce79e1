"""Mint, list and revoke tokens."""

from datetime import timedelta

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.views import APIView

from runs import selectors, services
from runs.api.bodies import answer, read, reason_in
from runs.api.identity import identity_of, person_of
from runs.api.openapi import REASON, problems
from runs.api.permissions import Admins
from runs.wire import MintToken, TokenList, TokenMinted


class TokensView(APIView):
    """The tokens of this deck."""

    permission_classes = [Admins]

    @extend_schema(
        operation_id="tokens_list",
        responses={200: TokenList, **problems(401, 403)},
        tags=["tokens"],
    )
    def get(self, request: Request) -> HttpResponse:
        """List tokens, newest first; secrets are never shown again."""
        return answer(TokenList(results=selectors.tokens()))

    @extend_schema(
        operation_id="tokens_mint",
        request=MintToken,
        responses={201: TokenMinted, **problems(400, 401, 403, 404)},
        tags=["tokens"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Mint a token; its text is in this answer only."""
        wanted, now = read(request, MintToken), timezone.now()
        lifetime = wanted.expires_in_seconds
        token, text = services.mint_token(
            name=wanted.name,
            scopes=wanted.scopes,
            run_id=selectors.run_named(wanted.run).pk if wanted.run else None,
            created_by=person_of(request),
            expires_at=now + timedelta(seconds=lifetime) if lifetime else None,
            from_networks=wanted.networks,
            now=now,
        )
        minted = TokenMinted(**selectors.token_fields(token), token=text)
        response = answer(minted, status=201)
        response["Cache-Control"] = "no-store"
        return response


class TokenView(APIView):
    """One token."""

    permission_classes = [Admins]

    @extend_schema(
        operation_id="tokens_revoke",
        parameters=[REASON],
        request=None,
        responses={204: None, **problems(400, 401, 403, 404)},
        tags=["tokens"],
    )
    def delete(self, request: Request, token: int) -> HttpResponse:
        """Revoke a token; it is refused from the next request on."""
        services.revoke_token(
            token_id=token,
            actor=identity_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)

"""API views that steer runs: trainers, environments, notes and tokens."""

from datetime import timedelta
from typing import Any

import msgspec
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from runs.access.api.identity import caller_of, identity_of, owner_of
from runs.access.api.permissions import (
    Operators,
    OperatorsToChange,
    readable_by,
    scoped,
)
from runs.access.models import ApiToken, TokenIssuer, User
from runs.access.queries import role_of, token_fields, tokens
from runs.access.rules import may_administer
from runs.access.schemas import CreatedToken, CreateToken, TokenList
from runs.access.services.tokens import check_grant, create_token, revoke_token
from runs.lifecycle.queries import (
    environment_row,
    notes_of,
    readable_run,
    readable_run_id,
    run_detail,
    run_id_named,
    run_named,
    trainers,
    weights_directory,
)
from runs.lifecycle.schemas import (
    ChangeEnvironment,
    EnvironmentRow,
    Notes,
    RegisterTrainer,
    ResetRun,
    RunDetail,
    TrainerList,
    TrainerRegistered,
    WriteNotes,
)
from runs.lifecycle.services.registry import register_trainer, reset_run
from runs.lifecycle.services.settings import change_environment, write_notes
from web.http.bodies import answer, read, reason_in
from web.http.openapi import REASON, problems
from web.http.views import ApiView

# API views that change an environment and reset an outside run.


class EnvironmentView(ApiView):
    """One environment of a run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="run_environments_update",
        request=ChangeEnvironment,
        responses={200: EnvironmentRow},
        tags=["runs"],
    )
    def patch(self, request: Request, run: str, env_id: int) -> HttpResponse:
        """Update a run's environment.

        Changes its weight, its minimum share, its connection state or its mute state.
        """
        changes: dict[str, Any] = msgspec.to_builtins(read(request, ChangeEnvironment))
        reason = changes.pop("reason")
        changed = change_environment(
            run_id=run_named(run).pk,
            env_id=env_id,
            changes=changes,
            actor=identity_of(request),
            reason=reason,
            now=timezone.now(),
        )
        return answer(environment_row(changed, now=timezone.now()))


class ResetView(ApiView):
    """Reset of an outside run."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="runs_reset", request=ResetRun, responses={200: RunDetail}, tags=["runs"]
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Reset an outside run.

        Archives the run and creates one of the same name; no row is deleted.
        """
        body = read(request, ResetRun)
        fresh = reset_run(
            run_id=run_named(run).pk,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(run_detail(fresh))


# API views that register and list trainers.


class TrainersView(ApiView):
    """The trainers of a run."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: trainers register, readers and trainers list them."""
        return [scoped("trainer")() if self.request.method == "POST" else readable_by("trainer")()]

    @extend_schema(operation_id="trainers_list", responses={200: TrainerList}, tags=["trainers"])
    def get(self, request: Request, run: str) -> HttpResponse:
        """List trainers.

        In the order of first registration.
        """
        found = trainers(run_id=readable_run(run).pk)
        return answer(TrainerList(results=found, next=None))

    @extend_schema(
        operation_id="trainers_register",
        request=RegisterTrainer,
        responses={200: TrainerRegistered, **problems(409)},
        tags=["trainers"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Register a trainer.

        A restarted trainer without `resume` opens a new epoch.
        """
        body = read(request, RegisterTrainer)
        trainer = register_trainer(
            run_id=run_named(run).pk,
            identity=identity_of(request),
            name=body.name,
            resume=body.resume,
            batch_size=body.batch_size,
            now=timezone.now(),
        )
        joined = trainer.run
        return answer(
            TrainerRegistered(
                uuid=trainer.uuid,
                epoch=joined.epoch,
                policy_step=joined.policy_step,
                batch_size=joined.batch_size,
                config=joined.config,
                weights_directory=weights_directory(joined),
            )
        )


# API views that create, list and revoke tokens.


class TokensView(ApiView):
    """The API tokens."""

    permission_classes = [Operators]

    @extend_schema(operation_id="tokens_list", responses={200: TokenList}, tags=["tokens"])
    def get(self, request: Request) -> HttpResponse:
        """List tokens.

        Newest first, without secrets. Operators list their own.
        """
        return answer(TokenList(results=tokens(owner=_only_owner(request)), next=None))

    @extend_schema(
        operation_id="tokens_create",
        request=CreateToken,
        responses={201: CreatedToken, **problems(404)},
        tags=["tokens"],
    )
    def post(self, request: Request) -> HttpResponse:
        """Create a token.

        The secret is in this answer only. Operators create tokens with `env`, `trainer` and
        `worker` for a run that they created, and with `read` and `user`.
        """
        body, now = read(request, CreateToken), timezone.now()
        run = run_named(body.run) if body.run else None
        # The rights of a new token are those of the caller, or of the requesting token.
        owner, issuer = owner_of(request), TokenIssuer.PERSON
        if isinstance(request.auth, ApiToken):
            issuer = TokenIssuer(request.auth.issuer)
        is_own_run = bool(run and owner and run.created_by_id == owner.pk)
        check_grant(body.scopes, caller=caller_of(request), is_own_run=is_own_run)
        lifetime = body.expires_in_seconds
        token, text = create_token(
            name=body.name,
            scopes=body.scopes,
            run_id=run.pk if run else None,
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


def _only_owner(request: Request) -> User | None:
    """Return the person whose tokens an operator manages; None for administrators: all tokens."""
    return None if may_administer(caller_of(request)) else owner_of(request)


class TokenView(ApiView):
    """One token."""

    permission_classes = [Operators]

    @extend_schema(
        operation_id="tokens_revoke",
        parameters=[REASON],
        request=None,
        responses={204: None},
        tags=["tokens"],
    )
    def delete(self, request: Request, token: int) -> HttpResponse:
        """Revoke a token.

        It is refused from the next request on. Operators revoke their own.
        """
        revoke_token(
            token_id=token,
            owner=_only_owner(request),
            actor=identity_of(request),
            reason=reason_in(request),
            now=timezone.now(),
        )
        return HttpResponse(status=204)


# API views of run notes.


class NotesView(ApiView):
    """The notes of a run."""

    permission_classes = [OperatorsToChange]

    @extend_schema(operation_id="run_notes_get", responses={200: Notes}, tags=["runs"])
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get a run's notes.

        With their author.
        """
        return answer(notes_of(readable_run_id(run)))

    @extend_schema(
        operation_id="run_notes_replace",
        request=WriteNotes,
        responses={200: Notes, **problems(409)},
        tags=["runs"],
    )
    def put(self, request: Request, run: str) -> HttpResponse:
        """Replace a run's notes.

        Refused if they have changed since you read them.
        """
        body, run_id = read(request, WriteNotes), run_id_named(run)
        write_notes(
            run_id=run_id,
            text=body.text,
            revision=body.revision,
            actor=identity_of(request),
            reason=body.reason,
            now=timezone.now(),
        )
        return answer(notes_of(run_id))

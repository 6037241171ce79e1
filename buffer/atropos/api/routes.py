"""API views of the Atropos trajectory API: registration, status and batches.

They behave like the server of atroposlib 0.4.0, except where that server loses, blocks or
duplicates data. The contract tests list the differences and their reasons.
"""

from functools import partial
from typing import Any, Final

import msgspec
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from buffer.atropos import schemas as messages
from buffer.atropos.api.view import RUN_OVER, AtroposView, atropos_schema, json_response
from buffer.batches.api.answers import TrackedAnswer
from buffer.batches.queries.queues import UnknownEnvironmentId
from buffer.batches.rules.batch_bytes import example_answer, stock_answer
from buffer.batches.services.lease_expiry import BatchCorrupt, contents_of
from buffer.batches.services.leases import (
    Lease,
    delete_old_deliveries,
    lease_for_atropos,
    record_delivered,
    record_interrupted,
    this_process,
)
from buffer.batches.services.pacing import status_of_environment
from buffer.batches.services.settlement import confirm_delivered
from buffer.ingest.schemas.bodies import (
    BodyProblem,
    EnvIdentifier,
    InvalidBody,
    RegisterEnv,
    Registration,
    decode,
)
from buffer.items.api import EITHER, ENVIRONMENTS, TRAINERS, TRAINERS_AND_READERS
from buffer.items.queries import queued_groups, server_limits
from buffer.payloads.services.contents import StoredContent, latest_group
from runs.access.api.identity import identity_of
from runs.access.rules import ADMINISTER
from runs.lifecycle.models import Run, RunKind, SecondRegistration
from runs.lifecycle.queries import batch_size_of
from runs.lifecycle.rules import TERMINAL
from runs.lifecycle.rules import Registration as RunRegistration
from runs.lifecycle.services.registry import (
    disconnect_environment,
    record_waiting_environment,
    register_environment,
    register_trainer,
    reset_run,
)

LATEST_WHEN_EMPTY: Final = (
    b'{"tokens":[],"masks":[],"scores":[],"advantages":[],"ref_logprobs":[],'
    b'"generation_params":[],"inference_logprobs":[],"messages":[],"images":[]}'
)


class RootView(AtroposView):
    """The greeting by which clients recognise an Atropos server."""

    authentication_classes = []
    permission_classes = []

    @atropos_schema(responses=messages.Message, auth=[])
    def get(self, request: Request, run: str | None = None) -> HttpResponse:
        """Get the greeting.

        Clients recognise the server by it.
        """
        return json_response(messages.Message(message="AtroposLib API"))


class RegisterView(AtroposView):
    """Registration of trainers."""

    rule = TRAINERS

    @atropos_schema(
        request=Registration,
        responses={200: messages.RegisteredTrainer, **RUN_OVER},
    )
    def post(self, request: Request, run: str | None = None) -> HttpResponse:
        """Register a trainer.

        The first registration opens the run. After a completed run, or one whose planned steps are
        served, it opens a new one; with `on_second_registration: reset` always.
        """
        body = decode(request.body, Registration, limits=server_limits())
        found, identity = self.find_run(), identity_of(request)
        if reason := _reason_for_new_run(found):
            if found.awaits_next_training:
                confirm_delivered(run_id=found.pk)
            found = reset_run(run_id=found.pk, actor=identity, reason=reason, now=timezone.now())
        trainer = register_trainer(
            run_id=found.pk,
            identity=identity,
            registration=RunRegistration(**msgspec.structs.asdict(body)),
            now=timezone.now(),
        )
        delete_old_deliveries(run_id=found.pk, identity=identity)
        return json_response(messages.RegisteredTrainer(uuid=trainer.uuid))


def _reason_for_new_run(run: Run) -> str:
    """Return why the registration of a trainer begins a new run; empty if it does not."""
    if run.awaits_next_training:
        return "a trainer registered after the planned train steps of the run"
    has_trainer = run.kind == RunKind.OUTSIDE and run.registered_at is not None
    if (
        has_trainer
        and run.on_second_registration == SecondRegistration.RESET
        and run.status not in TERMINAL
    ):
        return "a trainer registered again (on_second_registration: reset)"
    return ""


class RegisterEnvView(AtroposView):
    """Registration of environments."""

    rule = ENVIRONMENTS

    @atropos_schema(
        request=RegisterEnv,
        responses={200: messages.RegisteredEnvironment, **RUN_OVER},
    )
    def post(self, request: Request, run: str | None = None) -> HttpResponse:
        """Register an environment.

        Answers "wait for trainer to start" until a trainer has requested its first batch, also
        after the end of a training.
        """
        body = decode(request.body, RegisterEnv, limits=server_limits())
        found = self.find_run()
        if found.trainer_started_at is None or found.awaits_next_training:
            record_waiting_environment(run_id=found.pk, name=body.desired_name, now=timezone.now())
            return json_response(messages.RegisteredEnvironment(status="wait for trainer to start"))
        environment = register_environment(
            run_id=found.pk, **msgspec.structs.asdict(body), now=timezone.now()
        )
        return json_response(
            messages.RegisteredEnvironment(
                status="success",
                env_id=environment.env_id,
                wandb_name=environment.wandb_name,
                checkpoint_dir=found.checkpoint_dir,
                starting_step=found.current_step,
                checkpoint_interval=found.save_checkpoint_interval,
                num_steps=found.num_steps,
            )
        )


class DisconnectEnvView(AtroposView):
    """Disconnection of environments."""

    rule = ENVIRONMENTS

    @atropos_schema(
        request=EnvIdentifier,
        responses={200: messages.Outcome, **RUN_OVER},
    )
    def post(self, request: Request, run: str | None = None) -> HttpResponse:
        """Disconnect an environment."""
        env_id = decode(request.body, EnvIdentifier, limits=server_limits()).env_id
        gone = 0 <= env_id < 2**31 and disconnect_environment(
            run_id=self.find_run().pk, env_id=env_id, now=timezone.now()
        )
        if gone:
            return json_response(messages.Outcome(status="success"))
        return json_response(
            messages.Outcome(status="failure", error=f"this run has no environment {env_id}")
        )


class WandbInfoView(AtroposView):
    """W&B group and project of a run."""

    rule = EITHER

    @atropos_schema(responses={200: messages.WandbNames})
    def get(self, request: Request, run: str | None = None) -> HttpResponse:
        """Get the W&B group and project.

        Null before registration.
        """
        found = self.find_run()
        return json_response(
            messages.WandbNames(group=found.wandb_group, project=found.wandb_project)
        )


class InfoView(AtroposView):
    """Batch size and maximum sequence length of a run."""

    rule = EITHER

    @atropos_schema(responses={200: messages.RunSizes})
    def get(self, request: Request, run: str | None = None) -> HttpResponse:
        """Get the batch size and the longest sequence.

        -1 before registration.
        """
        found = self.find_run()
        return json_response(
            messages.RunSizes(
                batch_size=-1 if found.batch_size is None else found.batch_size,
                max_token_len=-1 if found.max_token_len is None else found.max_token_len,
            )
        )


def _final_status(run: Run) -> Any:
    """Return the status of a run that is over, or None."""
    return run.status if run.status in TERMINAL else None


class StatusView(AtroposView):
    """Status of a run."""

    rule = EITHER

    @atropos_schema(responses={200: messages.RunState})
    def get(self, request: Request, run: str | None = None) -> HttpResponse:
        """Get the run's status.

        Batches served and groups queued; zeros before registration.
        """
        found = self.find_run()
        if found.batch_size is None:
            return json_response(messages.RunState(current_step=0, queue_size=0))
        return json_response(
            messages.RunState(
                current_step=found.current_step,
                queue_size=queued_groups(found.pk),
                status=_final_status(found),
            )
        )


class StatusEnvView(AtroposView):
    """Status of a run for one environment."""

    rule = ENVIRONMENTS

    @atropos_schema(
        parameters=[OpenApiParameter("env_id", OpenApiTypes.INT)],
        responses={200: messages.EnvironmentState, 422: messages.HTTPValidationError},
    )
    def get(self, request: Request, run: str | None = None) -> HttpResponse:
        """Get an environment's status.

        Its share and queue; `env_id` in a JSON body or the query.
        """
        return self._answer(request)

    @atropos_schema(
        request=EnvIdentifier,
        responses={200: messages.EnvironmentState, **RUN_OVER},
    )
    def post(self, request: Request, run: str | None = None) -> HttpResponse:
        """Get an environment's status with POST.

        For clients that cannot send a body with GET.
        """
        return self._answer(request)

    def _answer(self, request: Request) -> HttpResponse:
        body = request.body
        if not body and "env_id" in request.query_params:
            body = msgspec.json.encode({"env_id": request.query_params["env_id"]})
        env_id = decode(body, EnvIdentifier, limits=server_limits()).env_id
        found = self.find_run()
        try:
            status = status_of_environment(found, env_id, now=timezone.now())
        except UnknownEnvironmentId as error:
            problem = BodyProblem(("body", "env_id"), str(error), "unknown_environment")
            raise InvalidBody([problem]) from error
        return json_response(
            messages.EnvironmentState(
                current_step=found.current_step,
                queue_size=status.queue_size,
                unallocated_fraction=status.unallocated_fraction,
                self_queue_size=status.self_queue_size,
                max_group_size=status.max_group_size,
                env_weight=status.env_weight,
                paced=status.paced,
                held=status.held,
            )
        )


def _lease_intact(run_id: int, identity: str) -> tuple[Lease, list[StoredContent]] | None:
    """Lease and read the next batch whose bytes pass their checksums; None if none is ready."""
    while True:
        now = timezone.now()
        lease = lease_for_atropos(run_id=run_id, identity=identity, sender=this_process(), now=now)
        if lease is None:
            return None
        try:
            return lease, contents_of(lease, now=now)
        except BatchCorrupt:
            # It was split up and its corrupt items were dropped: try the next one.
            continue
        except Exception:
            # The same trainer gets the batch with its next request.
            record_interrupted(batch_id=lease.batch.pk, fence=lease.batch.fence)
            raise


class BatchView(AtroposView):
    """Delivery of batches to stock Atropos trainers."""

    rule = TRAINERS
    http_method_names = ["get"]  # a HEAD request would lease a batch and discard it

    @atropos_schema(responses={200: messages.StockBatch, **RUN_OVER, 410: messages.Detail})
    def get(self, request: Request, run: str | None = None) -> HttpResponseBase:
        """Get the next batch.

        Null while none is ready, and with the status of a run that is over. A request acknowledges
        the batch of the request before.
        """
        known = batch_size_of(self.kwargs.get("run"))
        if known is None:
            found = self.find_run()  # the default run may be created; a missing one has an error
            known = found.pk, found.batch_size
        run_id, batch_size = known
        if batch_size is None:
            message = "Trainer not registered. Call /register first."
            return json_response({"status": "error", "message": message, "batch": []})
        taken = _lease_intact(run_id, identity_of(request))
        if taken is None:
            over = _final_status(Run.objects.only("status").get(pk=run_id))
            return json_response({"batch": None} | ({"status": over} if over else {}))
        lease, items = taken
        batch_id, fence = lease.batch.pk, lease.batch.fence
        return TrackedAnswer(
            stock_answer(items),
            content_type="application/json",
            on_sent=partial(record_delivered, batch_id=batch_id, fence=fence),
            on_cut=partial(record_interrupted, batch_id=batch_id, fence=fence),
        )


class LatestExampleView(AtroposView):
    """The newest group of a run."""

    rule = TRAINERS_AND_READERS

    @atropos_schema(responses={200: messages.LatestExample, **RUN_OVER})
    def get(self, request: Request, run: str | None = None) -> HttpResponse:
        """Get the newest group.

        Empty lists before the first one.
        """
        found = self.find_run()
        latest = latest_group(found.pk)
        return HttpResponse(
            LATEST_WHEN_EMPTY if latest is None else example_answer(latest),
            content_type="application/json",
        )


class ResetDataView(AtroposView):
    """Reset of a run."""

    http_method_names = ["get"]
    rule = ADMINISTER

    @atropos_schema(responses={(200, "text/plain"): OpenApiTypes.STR})
    def get(self, request: Request, run: str | None = None) -> HttpResponse:
        """Reset the run.

        Archives the run with its data and creates one of the same name.
        """
        reset_run(run_id=self.find_run().pk, actor=identity_of(request), now=timezone.now())
        return HttpResponse("Reset successful", content_type="text/plain; charset=utf-8")

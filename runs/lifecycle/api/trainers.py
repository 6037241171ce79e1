"""API views that register and list trainers."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from runs.access.api.identity import identity_of
from runs.access.api.permissions import readable_by, scoped
from runs.lifecycle.queries import readable_run, run_named, trainers, weights_directory
from runs.lifecycle.schemas import RegisterTrainer, TrainerList, TrainerRegistered
from runs.lifecycle.services.registry import register_trainer
from web.http.bodies import answer, read
from web.http.openapi import problems
from web.http.views import ApiView


class TrainersView(ApiView):
    """The trainers of a run."""

    def get_permissions(self) -> list[BasePermission]:
        """Return the permission: trainers register, readers and trainers list them."""
        return [scoped("trainer")() if self.request.method == "POST" else readable_by("trainer")()]

    @extend_schema(
        operation_id="trainers_list",
        responses={200: TrainerList},
        tags=["trainers"],
    )
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

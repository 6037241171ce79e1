"""Views of the cluster status and of the deployment's identity."""

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from config.cluster.messages import Cluster, ServerInfo
from config.cluster.status import cluster_status
from config.versions import own_version
from runs.access import rules
from runs.access.api.identity import caller_of, person_of
from runs.access.api.permissions import Known, Readers
from web.http.bodies import answer
from web.http.views import ApiView


class ClusterView(ApiView):
    """Status of the deployment's parts."""

    permission_classes = [Readers]

    @extend_schema(
        operation_id="cluster_get",
        responses={200: Cluster},
        tags=["server"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Get the cluster status.

        Processes, workers, Ray, database, broker and storage. Addresses are shown to
        administrators only.

        Each part is probed for at most one second; a part that does not answer is reported
        as unreachable.
        """
        return answer(cluster_status(is_admin=rules.may_administer(caller_of(request))))


class ServerView(ApiView):
    """Identity of the deployment."""

    permission_classes = [Known]

    @extend_schema(operation_id="server_get", responses={200: ServerInfo}, tags=["server"])
    def get(self, request: Request) -> HttpResponse:
        """Get the server's version and sign-in options."""
        person = person_of(request)
        return answer(
            ServerInfo(
                version=own_version(),
                deployment=settings.ROLLDECK_DEPLOYMENT,
                colour=settings.ROLLDECK_DEPLOYMENT_COLOUR,  # type: ignore[arg-type] # one of these
                auth=settings.ROLLDECK_AUTH,  # type: ignore[arg-type]
                time_zone=settings.TIME_ZONE,
                password_address="/admin/password_change/"
                if person is not None and person.is_staff and person.has_usable_password()
                else None,
            )
        )

"""API views of stored tensors."""

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer.tensors import services
from buffer.tensors.queries import read_tensors, tensors
from buffer.tensors.rules import MOST_KEY_CHARACTERS
from buffer.tensors.schemas import (
    TensorCount,
    TensorKeys,
    TensorList,
    TensorMoves,
    TensorReceipt,
    TensorRow,
    TensorSelection,
)
from runs.access.api.permissions import readable_by, scoped
from runs.lifecycle.queries import readable_run, run_named
from web.http.bodies import InvalidBody, answer, read
from web.http.openapi import problems
from web.http.paging import page_of, page_parameters
from web.http.views import ApiView

SAFETENSORS = "application/octet-stream"


class TensorsView(ApiView):
    """The stored tensors of a run."""

    def get_permissions(self) -> list[BasePermission]:
        is_list = self.request.method == "GET"
        return [readable_by("trainer")() if is_list else scoped("trainer")()]

    @extend_schema(
        operation_id="tensors_list",
        parameters=[
            OpenApiParameter("prefix", OpenApiTypes.STR, description="Prefix of the keys."),
            *page_parameters(default=1000, most=5000),
        ],
        responses={200: TensorList},
        tags=["tensors"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """List stored tensors.

        Without their bytes, in the order of their keys.
        """
        prefix = request.query_params.get("prefix", "")
        if len(prefix) > MOST_KEY_CHARACTERS or "\x00" in prefix:
            message = f"must be at most {MOST_KEY_CHARACTERS} characters without NUL"
            raise InvalidBody("prefix", message)
        page = page_of(request, str, default=1000, most=5000)
        found = tensors(readable_run(run).pk, prefix=prefix, after=page.after, limit=page.limit + 1)
        rows, cursor = page.cut(found, lambda one: one.key)
        names = TensorRow.__struct_fields__
        results = [TensorRow(**{name: getattr(one, name) for name in names}) for one in rows]
        return answer(TensorList(results=results, next=cursor))

    @extend_schema(
        operation_id="tensors_put",
        request={SAFETENSORS: OpenApiTypes.BINARY},
        responses={200: TensorReceipt, **problems(409, 413, 422, 429, 507)},
        tags=["tensors"],
    )
    def put(self, request: Request, run: str) -> HttpResponse:
        """Store tensors.

        The body is a safetensors file; the names of its tensors are the keys. All are stored or
        none, and existing keys are replaced.
        """
        body = request.body
        receipt = services.put_tensors(run=run_named(run), body=body, now=timezone.now())
        return answer(receipt)


class ReadTensorsView(ApiView):
    """The bytes of stored tensors."""

    permission_classes = [scoped("trainer")]

    @extend_schema(
        operation_id="tensors_read",
        request=TensorKeys,
        responses={(200, SAFETENSORS): OpenApiTypes.BINARY, **problems(410, 413, 503)},
        tags=["tensors"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Read stored tensors.

        The response is a safetensors file.
        """
        keys = read(request, TensorKeys).keys
        content = b"".join(read_tensors(run_named(run).pk, keys))
        return HttpResponse(content, content_type=SAFETENSORS)


class DeleteTensorsView(ApiView):
    """Deletion of stored tensors."""

    permission_classes = [scoped("trainer")]

    @extend_schema(
        operation_id="tensors_delete",
        request=TensorSelection,
        responses={200: TensorCount, **problems(422, 503)},
        tags=["tensors"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Delete stored tensors.

        Unknown keys and prefixes are ignored.
        """
        body = read(request, TensorSelection)
        count = services.delete_tensors(run=run_named(run), keys=body.keys, prefixes=body.prefixes)
        return answer(TensorCount(keys=count))


class MoveTensorsView(ApiView):
    """Renaming of stored tensors."""

    permission_classes = [scoped("trainer")]

    @extend_schema(
        operation_id="tensors_move",
        request=TensorMoves,
        responses={200: TensorCount, **problems(409, 422)},
        tags=["tensors"],
    )
    def post(self, request: Request, run: str) -> HttpResponse:
        """Rename stored tensors by prefix.

        All are renamed or none.
        """
        moves = read(request, TensorMoves).moves
        count = services.move_tensors(run=run_named(run), moves=moves)
        return answer(TensorCount(keys=count))

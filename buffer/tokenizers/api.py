"""API views of tokenizers."""

from typing import Final

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from buffer.tokenizers.models import RunTokenizer
from buffer.tokenizers.queries import tokenizer_file, tokenizer_of
from buffer.tokenizers.schemas import RunTokenizerRow
from buffer.tokenizers.services import set_tokenizer
from runs.access.api.identity import identity_of
from runs.access.api.permissions import readable_by, scoped
from runs.access.rules import MACHINE_SCOPES
from runs.lifecycle.queries import readable_run, run_named
from web.http.bodies import answer
from web.http.openapi import problems
from web.http.views import ApiView

TOKENIZER_SCHEMA: Final = {
    "type": "object",
    "description": "A `tokenizer.json` as the package `tokenizers` writes it.",
    "properties": {"version": {"type": "string"}, "model": {"type": "object"}},
    "required": ["model"],
}


def _row(tokenizer: RunTokenizer, *, status: int = 200) -> HttpResponse:
    file = tokenizer.file
    row = RunTokenizerRow(
        sha256=file.sha256,
        size_bytes=file.size_bytes,
        tokens=file.tokens,
        set_by=tokenizer.set_by,
        set_at=tokenizer.set_at,
    )
    return answer(row, status=status)


class TokenizerView(ApiView):
    """The tokenizer of a run."""

    def get_permissions(self) -> list[BasePermission]:
        is_read = self.request.method == "GET"
        return [(readable_by if is_read else scoped)(*sorted(MACHINE_SCOPES))()]

    @extend_schema(
        operation_id="tokenizer_get", responses={200: RunTokenizerRow}, tags=["tokenizers"]
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Get a run's tokenizer.

        Its hash and size, without the file.
        """
        return _row(tokenizer_of(readable_run(run)))

    @extend_schema(
        operation_id="tokenizer_put",
        request={"application/json": TOKENIZER_SCHEMA},
        responses={200: RunTokenizerRow, 201: RunTokenizerRow, **problems(413, 422)},
        tags=["tokenizers"],
    )
    def put(self, request: Request, run: str) -> HttpResponse:
        """Store a run's tokenizer.

        The body is a `tokenizer.json` of at most 64 MiB. It replaces an earlier one.
        """
        tokenizer, is_new = set_tokenizer(
            run=run_named(run),
            content=request.body,
            actor=identity_of(request),
            now=timezone.now(),
        )
        return _row(tokenizer, status=201 if is_new else 200)


class TokenizerFileView(ApiView):
    """The file of a run's tokenizer."""

    permission_classes = [readable_by(*sorted(MACHINE_SCOPES))]

    @extend_schema(
        operation_id="tokenizer_download",
        responses={(200, "application/json"): TOKENIZER_SCHEMA},
        tags=["tokenizers"],
    )
    def get(self, request: Request, run: str) -> HttpResponse:
        """Download a run's tokenizer.

        The `tokenizer.json`, byte for byte.
        """
        return HttpResponse(tokenizer_file(readable_run(run)), content_type="application/json")

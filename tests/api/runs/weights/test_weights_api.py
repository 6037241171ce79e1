import hashlib
import json
from typing import Any

import numpy as np
import pytest
from asgiref.sync import sync_to_async
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connections
from django.http import StreamingHttpResponse
from django.test import AsyncClient
from rest_framework.test import APIClient
from safetensors.numpy import save

from runs.lifecycle.models import PolicyVersion, Run
from tests.factories import bearer, make_run

FILE = save({"w": np.arange(6, dtype=np.float32)})
SHA256 = hashlib.sha256(FILE).hexdigest()


def manifest(**fields: Any) -> dict[str, Any]:
    return {
        "epoch": 1,
        "step": 0,
        "sha256": SHA256,
        "size_bytes": len(FILE),
        "tensors": [{"name": "w", "dtype": "F32", "shape": [6]}],
    } | fields


def publish(client: APIClient, described: object = None, *, file: bytes | None = FILE) -> Any:
    form: dict[str, Any] = {"manifest": json.dumps(described or manifest())}
    if file is not None:
        form["weights"] = SimpleUploadedFile("weights", file)
    return client.post("/api/v1/runs/alpha/weights", form, format="multipart")


@pytest.fixture
def run(db: None) -> Run:
    return make_run(epoch=1)


@pytest.fixture
def trainer(run: Run) -> APIClient:
    return APIClient(headers=bearer("trainer", run=run))


def test_weights_are_published_current_and_downloaded(trainer: APIClient) -> None:
    assert trainer.get("/api/v1/runs/alpha/weights/current").json()["code"] == "no_weights"

    first, again = publish(trainer), publish(trainer)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == manifest()
    assert trainer.get("/api/v1/runs/alpha/weights/current").json() == manifest()
    download = trainer.get("/api/v1/runs/alpha/weights/1/0")
    assert download.getvalue() == FILE
    assert download["ETag"] == f'"{SHA256}"'
    assert download["Content-Length"] == str(len(FILE))
    assert download["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize("path", ["1/1", "2/0", "1/-1", "9999999999/0"])
def test_an_unknown_version_is_not_found(trainer: APIClient, path: str) -> None:
    publish(trainer)

    assert trainer.get(f"/api/v1/runs/alpha/weights/{path}").status_code == 404


def test_byte_ranges_of_the_file_are_served(trainer: APIClient) -> None:
    publish(trainer)
    url = "/api/v1/runs/alpha/weights/1/0"

    part = trainer.get(url, headers={"Range": "bytes=8-11"})
    beyond = trainer.get(url, headers={"Range": "bytes=100000-"})
    other = trainer.get(url, headers={"Range": "bytes=0-3", "If-Range": '"other"'})
    known = trainer.get(url, headers={"If-None-Match": f'"{SHA256}"'})

    assert (part.status_code, part.getvalue()) == (206, FILE[8:12])
    assert part["Content-Range"] == f"bytes 8-11/{len(FILE)}"
    assert (beyond.status_code, beyond["Content-Range"]) == (416, f"bytes */{len(FILE)}")
    assert beyond["Content-Type"] == "application/problem+json"
    assert beyond.json()["code"] == "range_not_satisfiable"
    assert (other.status_code, other.getvalue()) == (200, FILE)
    assert (known.status_code, known.content) == (304, b"")


@pytest.mark.parametrize(
    ("described", "field"),
    [
        ([], "manifest"),
        ({"epoch": 1}, "manifest.step"),
        (manifest(epoch=-1), "manifest.epoch"),
        (manifest(step=-2), "manifest.step"),
        (manifest(sha256="XYZ"), "manifest.sha256"),
        (manifest(size_bytes="8"), "manifest.size_bytes"),
        (manifest(tensors=[]), "manifest.tensors"),
        (manifest(tensors=[{"name": "w"}]), "manifest.tensors[0].dtype"),
    ],
    ids=str,
)
def test_a_malformed_manifest_is_refused_by_field(
    trainer: APIClient, described: object, field: str
) -> None:
    response = publish(trainer, json.loads(json.dumps(described)) or [1])

    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == field
    assert not PolicyVersion.objects.exists()


@pytest.mark.parametrize(
    ("described", "status", "code"),
    [
        (manifest(sha256="0" * 64), 422, "manifest_mismatch"),
        (manifest(size_bytes=9), 422, "manifest_mismatch"),
        (manifest(epoch=2), 409, "stale_epoch"),
    ],
)
def test_weights_that_do_not_fit_are_refused_with_a_code(
    trainer: APIClient, described: object, status: int, code: str
) -> None:
    response = publish(trainer, described)

    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.json()["errors"][0]["field"].startswith("manifest.")
    assert not PolicyVersion.objects.exists()


def test_an_older_version_is_a_conflict(trainer: APIClient) -> None:
    publish(trainer, manifest(step=5))

    response = publish(trainer, manifest(step=4))

    assert (response.status_code, response.json()["code"]) == (409, "version_not_newer")


def test_both_parts_of_the_form_are_required(trainer: APIClient) -> None:
    assert publish(trainer, file=None).json()["errors"][0]["field"] == "weights"
    no_manifest = trainer.post("/api/v1/runs/alpha/weights", {"a": "b"}, format="multipart")
    assert no_manifest.json()["errors"][0]["field"] == "manifest"
    no_form = trainer.post("/api/v1/runs/alpha/weights", {}, format="json")
    assert no_form.status_code == 415


@pytest.mark.django_db(transaction=True)
async def test_the_asynchronous_server_streams_the_file_in_chunks() -> None:
    headers = await sync_to_async(lambda: bearer("trainer", run=make_run(epoch=1)))()
    await sync_to_async(publish)(APIClient(headers=headers))

    response = await AsyncClient().get("/api/v1/runs/alpha/weights/1/0", headers=headers)

    assert isinstance(response, StreamingHttpResponse)
    assert response.is_async
    assert b"".join([chunk async for chunk in response.streaming_content]) == FILE
    await sync_to_async(connections.close_all)()

"""Object storage in S3 or compatible services; needs the extra `s3`."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from storages.backends.s3 import S3Storage

_MISSING: Final = frozenset({"NoSuchKey", "404"})
_BEHIND_THE_END: Final = frozenset({"InvalidRange", "416"})
ATTEMPTS: Final = 3
CONNECT_SECONDS: Final = 3.0
SILENT_SECONDS: Final = 5.0
"""Time without a byte of the answer. botocore's own 60 s, five times, hold a push for minutes."""
GAP_BYTES: Final = 1 << 20
"""Longest gap between ranges that one request reads. A request waits as long as 1 MB takes."""


class S3Payloads(S3Storage):  # type: ignore[misc] # no types
    """Objects below a prefix of a bucket. A put is atomic, and durable once acknowledged."""

    # Requests take milliseconds and no CPU: read the objects of a batch concurrently.
    reads_at_once = 16

    def __init__(self, *, silent_seconds: float = SILENT_SECONDS, **settings: Any) -> None:
        """Bound the time of each request; `settings` are those of django-storages."""
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=silent_seconds,
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
            max_pool_connections=2 * self.reads_at_once,
        )
        super().__init__(client_config=config, **settings)

    @cached_property
    def _client(self) -> Any:
        """The client, shared by all threads; boto3 resources are not thread-safe."""
        return self.connection.meta.client

    def _key(self, name: str) -> str:
        return str(self._normalize_name(name))

    def write_parts(self, name: str, parts: Sequence[bytes | memoryview]) -> None:
        body = b"".join(parts)
        try:
            self._client.put_object(Bucket=self.bucket_name, Key=self._key(name), Body=body)
        except (BotoCoreError, ClientError) as error:
            raise OSError(str(error)) from error

    def read_ranges(self, name: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes at each (offset, size), cut at the end of the object.

        Raises:
            FileNotFoundError: If the object does not exist.
            OSError: If the read fails.
        """
        parts = [b""] * len(ranges)
        for begin, end, inside in _spans(ranges):
            span = self._read(name, begin, end - begin)
            for index in inside:
                offset, size = ranges[index]
                parts[index] = span[offset - begin : offset - begin + size]
        return parts

    def _read(self, name: str, offset: int, size: int) -> bytes:
        byte_range = f"bytes={offset}-{offset + size - 1}"
        try:
            answer = self._client.get_object(
                Bucket=self.bucket_name, Key=self._key(name), Range=byte_range
            )
            return bytes(answer["Body"].read())
        except ClientError as error:
            code = str(error.response.get("Error", {}).get("Code"))
            if code in _BEHIND_THE_END:
                return b""
            if code in _MISSING:
                raise FileNotFoundError(name) from error
            raise OSError(str(error)) from error
        except BotoCoreError as error:
            raise OSError(str(error)) from error

    def remove_folder(self, name: str) -> None:
        """Remove all objects below ``name/``, 1,000 per request."""
        self.bucket.objects.filter(Prefix=f"{self._key(name)}/").delete()


def _spans(ranges: Sequence[tuple[int, int]]) -> list[tuple[int, int, list[int]]]:
    """Return (begin, end, indexes of its ranges) of each request that reads the ranges."""
    spans: list[tuple[int, int, list[int]]] = []
    for index in sorted(range(len(ranges)), key=ranges.__getitem__):
        offset, size = ranges[index]
        if not size:
            continue
        begin, end, inside = spans[-1] if spans else (0, -GAP_BYTES - 1, [])
        if offset - end > GAP_BYTES:
            spans.append((offset, offset + size, [index]))
        else:
            spans[-1] = (begin, max(end, offset + size), [*inside, index])
    return spans

"""The folders of a deployment carry its id, so that no server uses the files of another one.

Rows of the database name files in these folders. A second server on the same database with folders
of its own would answer that weights and payloads are lost, and would store files that the first
one cannot find. So the first start writes an id into the database and into each folder; later
starts compare them.
"""

import logging
import socket
import sys
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, cast

from django.conf import settings
from django.core.files.storage import storages
from django.db import DatabaseError, connection, transaction
from django.db.backends.postgresql.base import DatabaseWrapper
from django.utils import timezone

from buffer.payloads.rules import MARKER
from buffer.payloads.services.files import DurableFiles
from config.cluster.status import storage_location
from runs.deployment.models import Deployment

logger = logging.getLogger(__name__)

_ID_BYTES: Final = 64
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('rolldeck.own folders'))"
_REPAIR: Final = "run `rolldeck admin bind_folders`"


class ForeignFolder(Exception):
    """A folder does not belong to the deployment of the database; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of files that rows of the database name."""

    name: str
    place: str
    storage: Any

    def owner(self) -> str:
        """Return the id of the deployment that owns the folder; empty if there is none.

        Raises:
            OSError: If it cannot be read at the moment.
        """
        try:
            content: bytes = self.storage.read_ranges(MARKER, [(0, _ID_BYTES)])[0]
        except FileNotFoundError:
            return ""
        return content.decode(errors="replace").strip()

    def mark(self, identity: str) -> None:
        """Make a deployment the owner, whatever the folder belonged to."""
        self.storage.delete(MARKER)
        self.storage.write_parts(MARKER, [identity.encode()])

    def is_empty(self) -> bool:
        """Return whether the folder contains nothing but its mark."""
        try:
            folders, files = self.storage.listdir("")
        except FileNotFoundError:
            return True
        return not folders and set(files) <= {MARKER}


def own_folders() -> list[Folder]:
    """Return the folders of payloads, of weights and recordings, and of archives."""
    kind, place = storage_location()
    media, archives = Path(settings.MEDIA_ROOT), Path(settings.ROLLDECK_VAR) / "archives"
    return [
        Folder("payloads", f"s3://{place}" if kind == "s3" else place, storages["payloads"]),
        Folder("media", str(media), DurableFiles(location=media)),
        Folder("archives", str(archives), DurableFiles(location=archives)),
    ]


@transaction.atomic
def claim_folders(*, now: datetime) -> None:
    """Check that the folders belong to the database; the first start of a deployment marks them.

    Raises:
        ForeignFolder: If a folder belongs to another deployment, or to none.
        OSError: If a folder cannot be read or written.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)
    if Deployment.objects.exists():
        if problem := folder_problem():
            raise ForeignFolder(problem)
        return
    for folder in own_folders():
        owner = folder.owner()
        if owner and not folder.is_empty():
            raise ForeignFolder(
                f"{folder.place} holds files of deployment {owner}, but the database is new. Set "
                "another folder (ROLLDECK_VAR, ROLLDECK_PAYLOAD_STORAGE), set the database of "
                f"these files (DATABASE_URL), or {_REPAIR} to use the folder with this database"
            )
    bind_folders(now=now)


@transaction.atomic
def bind_folders(*, now: datetime) -> Deployment:
    """Give the deployment a new id, and mark its folders, whatever they belonged to."""
    folders = own_folders()
    host = socket.gethostname()
    Deployment.objects.all().delete()
    made = Deployment.objects.create(
        places={folder.name: f"{host}:{folder.place}" for folder in folders}, created_at=now
    )
    for folder in folders:
        folder.mark(str(made.identity))
    return made


def folder_problem() -> str:
    """Return why a folder is not that of the database; empty if all are, or none is marked yet.

    Raises:
        OSError: If a folder cannot be read at the moment.
    """
    known = Deployment.objects.first()
    if known is None:
        return ""
    for folder in own_folders():
        owner = folder.owner()
        if owner != str(known.identity):
            belongs = f"belongs to deployment {owner}" if owner else "has no deployment id"
            return (
                f"{folder.place} {belongs}, but the database belongs to deployment "
                f"{known.identity}, whose folder is {known.places.get(folder.name, 'unknown')}. "
                "All servers of a database need the same folders: set ROLLDECK_VAR or "
                f"ROLLDECK_PAYLOAD_STORAGE, or {_REPAIR} if {folder.place} has its files"
            )
    return ""


def claim_or_exit() -> None:
    """Claim the folders at the start of a process, and end it with one line if they are foreign.

    Without a database the process starts unchecked; it is not ready until it can compare them.
    """
    try:
        claim_folders(now=timezone.now())
    except ForeignFolder as error:
        sys.exit(f"rolldeck: {error}")
    except (DatabaseError, OSError) as error:
        logger.warning("folders not compared with the database: %s", error)
    finally:
        database = cast(DatabaseWrapper, connection)
        database.close()
        database.close_pool()

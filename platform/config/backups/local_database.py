"""Access to the deployment's database, whether its server runs or not."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from django.conf import settings
from django.db import connections

from config import env
from config.embedded.folders import Folders, ServerRunning
from config.embedded.postgres import Postgres
from config.settings.connections import database


@contextmanager
def local_database(*, alone: bool) -> Iterator[None]:
    """Connect this process to the database; start an embedded one if it does not run.

    Args:
        alone: Fail if a server runs on the folder, and keep others from starting.

    Raises:
        ServerRunning: If a server runs on the folder and `alone` is true.
        StartFailed: If the embedded database cannot start.
    """
    folders = Folders(settings.ROLLDECK_VAR)
    folders.create()
    with ExitStack() as undo:
        undo.callback(connections.close_all)
        try:
            undo.enter_context(folders.lock())
        except ServerRunning:
            if alone:
                raise
        else:
            if not env.text("DATABASE_URL"):
                undo.enter_context(_embedded(folders))
        yield


@contextmanager
def _embedded(folders: Folders) -> Iterator[None]:
    sockets = folders.new_socket_folder()
    try:
        postgres = Postgres(
            data_folder=folders.postgres, socket_folder=sockets, log_folder=folders.log
        )
        child = postgres.start()
        try:
            settings.DATABASES["default"].update(database(postgres.url))
            yield
        finally:
            connections.close_all()
            child.stop()
    finally:
        folders.remove_socket_folder(sockets)

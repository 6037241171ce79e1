"""Django's backend for PostgreSQL, whose pool gives out no connection that the server has closed.

After a restart of the server, each connection of the pool would fail one request. The pool's own
check sends a query each time, and delays the next attempt by a second.
"""

import select
from typing import Any

import psycopg
from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection from the pool of its process."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> psycopg.Connection[Any]:
        """Return a connection that the server has not closed."""
        connection: psycopg.Connection[Any] = super().get_new_connection(conn_params)
        while self.pool and closed_by_server(connection):
            connection.close()
            self.pool.putconn(connection)  # which opens another one
            connection = super().get_new_connection(conn_params)
        return connection


def closed_by_server(connection: psycopg.Connection[Any]) -> bool:
    """Return whether an idle connection is closed, without a query."""
    if connection.closed:
        return True
    # An idle server sends data only when it closes the connection.
    news = select.poll()  # unlike select.select, works above descriptor 1,023
    news.register(connection.fileno(), select.POLLIN)
    return bool(news.poll(0))

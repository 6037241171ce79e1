"""Model field for the number of the transaction that wrote a row."""

from typing import Any, Final

from django.db import models

CURRENT_TRANSACTION: Final = models.Func(function="pg_current_xact_id")


class TransactionIdField(models.TextField):  # type: ignore[type-arg]
    """A 64-bit transaction number of PostgreSQL (`xid8`), as text in Python."""

    def db_type(self, connection: Any) -> str:  # noqa: ARG002 one database is supported
        """Return the type of the column."""
        return "xid8"

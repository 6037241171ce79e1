"""Settings of the tests: PostgreSQL and Valkey as in production, started by tests/conftest.py."""

from config.settings.base import *

SECRET_KEY = "test-only"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Tests open few connections, and each is closed at the end of its test.
del DATABASES["default"]["OPTIONS"]["pool"]
# The servers' first database has all migrations (tests/initial_database.py).
DATABASES["default"]["TEST"]["TEMPLATE"] = DATABASES["default"]["NAME"]
# The counting thread would write outside the transaction of a test.
COUNT_REFUSED_PUSHES = False

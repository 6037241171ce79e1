"""Settings of the tests: the same PostgreSQL and Valkey, started by tests/conftest.py."""

from config.settings.base import *

SECRET_KEY = "test-only"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# A test opens few connections, and each closes with its test.
del DATABASES["default"]["OPTIONS"]["pool"]
# The one that the servers begin with has all migrations (tests/prepared.py).
DATABASES["default"]["TEST"]["TEMPLATE"] = DATABASES["default"]["NAME"]
# The thread that notes calls would write beside the transaction of a test.
ROLLDECK_RECORDED_CALLS = 0

"""Settings of the platform; configurable values come from environment variables."""

import json
from pathlib import Path
from typing import Any, Final

from platformdirs import user_data_path

from buffer.items.rules.limits import DEFAULTS
from config import env
from config.settings.connections import (
    celery_broker,
    database,
    inference_servers,
    mail_addresses,
    payload_storage,
    runtime_env,
    server_url,
    smtp,
    tool_servers,
    url_hosts,
    webhooks,
)
from rolldeck import __version__

# Colours of the dashboard for the admin, and fixes of its theme.

# The dashboard's greys and its accent (frontend/src/theme), as unfold's scales. Text in 500 and
# darker has a contrast of 4.5:1 on white, in 400 and lighter on 900; dark mode uses accent 500.
_COLOURS: Final[dict[str, dict[str, str]]] = {
    "base": {
        "50": "#f5f6f8",
        "100": "#eef0f4",
        "200": "#dfe3ea",
        "300": "#c6ccd7",
        "400": "#9aa3b5",
        "500": "#5f697d",
        "600": "#4d5668",
        "700": "#394255",
        "800": "#252c39",
        "900": "#141922",
        "950": "#0e1219",
    },
    "primary": {
        "50": "#eef1ff",
        "100": "#dbe1ff",
        "200": "#c7d0ff",
        "300": "#b5c1ff",
        "400": "#a0afff",
        "500": "#8c9eff",
        "600": "#3b50c9",
        "700": "#3345a6",
        "800": "#2b3a85",
        "900": "#232f6b",
        "950": "#1a2350",
    },
}
_THEME: Final[dict[str, Any]] = {
    "COLORS": _COLOURS,
    "STYLES": ["/static/admin_theme/mends.css"],
    "SCRIPTS": ["/static/admin_theme/mends.js"],
}


# Settings of the platform; configurable values come from environment variables.

BASE_DIR = Path(__file__).resolve().parents[3]

# --- Files of the deployment, and its address ---
# A checkout keeps its data beside the code; a wheel, in the data folder of the user.
_IS_CHECKOUT = (BASE_DIR / "pyproject.toml").is_file()
_VAR = BASE_DIR / "var" if _IS_CHECKOUT else user_data_path("rolldeck", appauthor=False)
ROLLDECK_VAR = env.folder("ROLLDECK_VAR", _VAR)
ROLLDECK_HOST = env.text("ROLLDECK_HOST", "127.0.0.1")
ROLLDECK_PORT = env.integer("ROLLDECK_PORT", 8000, at_least=1, at_most=65535)
# The address of this platform for people, in links and mails, and for trainers.
ROLLDECK_PUBLIC_URL = env.text("ROLLDECK_PUBLIC_URL", f"http://127.0.0.1:{ROLLDECK_PORT}")
# The address for fleets, which may be in the same network.
ROLLDECK_INTERNAL_URL = env.text("ROLLDECK_INTERNAL_URL", ROLLDECK_PUBLIC_URL)
# Proxies in front of the server. Only from these, X-Forwarded-For names the client.
ROLLDECK_TRUSTED_PROXIES = env.networks("ROLLDECK_TRUSTED_PROXIES")
# open: the Atropos routes need no credentials from loopback.
ROLLDECK_AUTH = env.choice("ROLLDECK_AUTH", "open", of=("open", "required"))
ROLLDECK_BOOTSTRAP_TOKEN = env.text("ROLLDECK_BOOTSTRAP_TOKEN")

# A running embedded server writes the addresses of its database and broker to this file,
# for other commands such as `manage.py shell`.
_running = ROLLDECK_VAR / "run" / "services.json"
_embedded: dict[str, str] = json.loads(_running.read_text()) if _running.is_file() else {}
DATABASE_URL = server_url("DATABASE", _embedded.get("DATABASE_URL", ""))
REDIS_URL = server_url("REDIS", _embedded.get("REDIS_URL", ""))
RAY_ADDRESS = env.text("RAY_ADDRESS", _embedded.get("RAY_ADDRESS", ""))
# The cluster's token, which its gateway requires too.
RAY_AUTH_TOKEN = env.text("RAY_AUTH_TOKEN")
# Ray's runtime environment of a fleet's processes. Runs cannot change it.
RAY_RUNTIME_ENV = runtime_env(env.text("ROLLDECK_RAY_RUNTIME_ENV"))
# Managers are named within it: deployments that share a cluster need one each.
RAY_NAMESPACE = env.text("ROLLDECK_RAY_NAMESPACE", "rolldeck")

# --- Secrets and hosts ---
INSECURE_SECRET_KEY = "insecure-only-for-loopback"
SECRET_KEY = env.text("ROLLDECK_SECRET_KEY", _embedded.get("SECRET_KEY", INSECURE_SECRET_KEY))
DEBUG = env.flag("ROLLDECK_DEBUG")
# The hosts of both URLs, and others.
ALLOWED_HOSTS = [
    *env.word_list("ROLLDECK_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]"),
    *url_hosts(ROLLDECK_PUBLIC_URL, ROLLDECK_INTERNAL_URL),
]
CSRF_TRUSTED_ORIGINS = env.word_list("ROLLDECK_TRUSTED_ORIGINS")
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = env.flag("ROLLDECK_HTTPS")
# Browsers accept the prefix only from HTTPS, for this host and all its paths.
COOKIE_PREFIX = "__Host-" if SESSION_COOKIE_SECURE else ""
SESSION_COOKIE_NAME = f"{COOKIE_PREFIX}sessionid"
CSRF_COOKIE_NAME = f"{COOKIE_PREFIX}csrftoken"
SESSION_COOKIE_AGE = 14 * 24 * 3600  # from the sign-in on, used or not
# Duration for which browsers use only HTTPS for this host; sent only with ROLLDECK_HTTPS=1.
ROLLDECK_HSTS_SECONDS = env.integer("ROLLDECK_HSTS_SECONDS", 365 * 24 * 3600)
SECURE_CONTENT_TYPE_NOSNIFF = True
X_FRAME_OPTIONS = "DENY"

# --- Applications ---
INSTALLED_APPS = [
    "unfold",  # before the admin, whose templates it replaces
    "unfold.contrib.filters",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",  # Swagger UI's files: a page loads nothing from elsewhere
    "runs",
    "buffer",
    "rollouts",
    "frontend",
    "config",
]
MIDDLEWARE = [
    "config.middleware.request_id_middleware",
    "config.middleware.CallLog",  # outermost of these: sees the final response
    "config.middleware.SecurityHeaders",
    "config.middleware.health_middleware",  # before the check of the host
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
ROOT_URLCONF = "config.urls"
ASGI_APPLICATION = "config.asgi.application"
APPEND_SLASH = False
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "platform" / "config" / "templates"],  # before unfold's
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

# --- Environments: additions to the built-in ones ---
ROLLDECK_ENVIRONMENTS = env.word_list("ROLLDECK_ENVIRONMENTS")
ROLLDECK_ENVIRONMENT_WRAPPERS = env.word_list("ROLLDECK_ENVIRONMENT_WRAPPERS")
ROLLDECK_ENVIRONMENT_CALLBACKS = env.word_list("ROLLDECK_ENVIRONMENT_CALLBACKS")
ROLLDECK_STEP_CALLBACKS = env.word_list("ROLLDECK_STEP_CALLBACKS")
# Variables that environment processes inherit in addition to the allow-list.
ROLLDECK_ENVIRONMENT_VARIABLES = env.word_list("ROLLDECK_ENVIRONMENT_VARIABLES")
ROLLDECK_INFERENCE_SERVERS = inference_servers(env.text("ROLLDECK_INFERENCE_SERVERS"))
# --- Lessons: the folder of data sets, and additions to the built-in rewards ---
ROLLDECK_DATASETS = env.text("ROLLDECK_DATASETS")
ROLLDECK_REWARDS = env.word_list("ROLLDECK_REWARDS")
ROLLDECK_TOOL_SERVERS = tool_servers(env.text("ROLLDECK_TOOL_SERVERS"))
# Read when a run is created: an invalid setting of one machine must not end the server.
ROLLDECK_VERIFIERS = env.text("ROLLDECK_VERIFIERS")
ROLLDECK_OPENENV = env.text("ROLLDECK_OPENENV")
# --- Policies: additions to the built-in ones ---
ROLLDECK_POLICIES = env.word_list("ROLLDECK_POLICIES")
# --- Curricula: additions to the built-in strategies ---
ROLLDECK_STRATEGIES = env.word_list("ROLLDECK_STRATEGIES")

# --- Data ---
DATABASES = {"default": database(DATABASE_URL)}
# Connections of a process, in addition to those of config.machines.
POOL_CONNECTIONS = DATABASES["default"]["OPTIONS"]["pool"]["max_size"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
MEDIA_ROOT = ROLLDECK_VAR / "media"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    "payloads": payload_storage(
        env.text("ROLLDECK_PAYLOAD_STORAGE"), folder=ROLLDECK_VAR / "payloads"
    ),
}
# Shared by trainers and fleets; runs may pass weights through it. Empty: disabled.
ROLLDECK_WEIGHTS_DIRECTORY = env.text("ROLLDECK_WEIGHTS_DIRECTORY", "")
# Pushes up to this size are stored in the database, larger ones as objects.
ROLLDECK_INLINE_PAYLOAD_BYTES = env.integer("ROLLDECK_INLINE_PAYLOAD_BYTES", 64 * 1024)
# A segment is sealed at this age or size, and later dropped as a whole.
ROLLDECK_SEGMENT_SECONDS = env.integer("ROLLDECK_SEGMENT_SECONDS", 3600, at_least=1)
ROLLDECK_SEGMENT_BYTES = env.integer("ROLLDECK_SEGMENT_BYTES", 1024**3, at_least=1)
# Retention of payloads; 0: without limit.
ROLLDECK_RETENTION_SECONDS = env.integer("ROLLDECK_RETENTION_SECONDS", 7 * 24 * 3600)
ROLLDECK_RETENTION_BYTES = env.integer("ROLLDECK_RETENTION_BYTES", 50 * 1024**3)
ROLLDECK_RETENTION_ITEMS = env.integer("ROLLDECK_RETENTION_ITEMS", 0)
# Time that captured calls wait for a score, and are kept afterwards.
ROLLDECK_CAPTURE_SECONDS = env.integer("ROLLDECK_CAPTURE_SECONDS", 24 * 3600, at_least=60)
ROLLDECK_RECORDINGS_PER_RUN = env.integer("ROLLDECK_RECORDINGS_PER_RUN", 20)
# Retention of lesson outcomes; 0: without limit.
ROLLDECK_OUTCOME_SECONDS = env.integer("ROLLDECK_OUTCOME_SECONDS", 7 * 24 * 3600)
ROLLDECK_OUTCOME_ROWS = env.integer("ROLLDECK_OUTCOME_ROWS", 1_000_000)
# Retention of archive files; 0: until they are deleted manually.
ROLLDECK_ARCHIVE_SECONDS = env.integer("ROLLDECK_ARCHIVE_SECONDS", 0)


# API calls of machines that take as long are logged; 0: all calls. Refused ones are always logged.
ROLLDECK_SLOW_CALL_MS = env.integer("ROLLDECK_SLOW_CALL_MS", 1000, at_least=0)
COUNT_REFUSED_PUSHES = True

# --- Alerts: recipients and thresholds ---
ROLLDECK_ALERT_WEBHOOKS = webhooks(env.word_list("ROLLDECK_ALERT_WEBHOOKS"))
ROLLDECK_ALERT_WEBHOOK_SECRET = env.text("ROLLDECK_ALERT_WEBHOOK_SECRET")
ROLLDECK_ALERT_WEBHOOK_LEVEL = env.choice(
    "ROLLDECK_ALERT_WEBHOOK_LEVEL", "warning", of=("warning", "error")
)
# Mail recipients, the minimum severity, and the mail server.
ROLLDECK_ALERT_EMAILS = mail_addresses(env.word_list("ROLLDECK_ALERT_EMAILS"))
ROLLDECK_ALERT_EMAIL_LEVEL = env.choice(
    "ROLLDECK_ALERT_EMAIL_LEVEL", "warning", of=("warning", "error")
)
DEFAULT_FROM_EMAIL = env.text("ROLLDECK_ALERT_EMAIL_FROM", "Rolldeck <rolldeck@localhost>")
_mail = smtp(env.text("ROLLDECK_SMTP_URL", "smtp://localhost:25"))
EMAIL_HOST, EMAIL_PORT = _mail.host, _mail.port
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = _mail.user, _mail.password
EMAIL_USE_TLS, EMAIL_USE_SSL = _mail.is_upgraded, _mail.is_encrypted
EMAIL_TIMEOUT = 5
# Retention of resolved alerts, in days; 0: without limit.
ROLLDECK_ALERT_RETENTION_DAYS = env.integer("ROLLDECK_ALERT_RETENTION_DAYS", 90)
# Time without progress after which a running run counts as stalled; 0: never.
ROLLDECK_STALLED_SECONDS = env.integer("ROLLDECK_STALLED_SECONDS", 600)

# --- Change notices and jobs: Celery's broker, which stores no state ---
CELERY_BROKER_URL = celery_broker(REDIS_URL)

# --- Limits on incoming data ---
# Bodies are counted while they are read (config.body_limits); these two only keep Django from
# spooling them to disk and from rejecting them above 2.5 MB.
FILE_UPLOAD_MAX_MEMORY_SIZE = 64 * 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = None
# Meanings and defaults: buffer.items.rules.limits.
ROLLDECK_MAX_BODY_BYTES = env.integer("ROLLDECK_MAX_BODY_BYTES", DEFAULTS.body_bytes, at_least=1024)
ROLLDECK_MAX_DECOMPRESSED_BYTES = env.integer(
    "ROLLDECK_MAX_DECOMPRESSED_BYTES", DEFAULTS.decompressed_bytes, at_least=1024
)
ROLLDECK_MAX_DECOMPRESSION_RATIO = env.integer(
    "ROLLDECK_MAX_DECOMPRESSION_RATIO", DEFAULTS.decompression_ratio, at_least=1
)
ROLLDECK_MAX_WEIGHTS_BYTES = env.integer(
    "ROLLDECK_MAX_WEIGHTS_BYTES", DEFAULTS.weights_bytes, at_least=1024
)
ROLLDECK_MAX_HEADER_BYTES = env.integer(
    "ROLLDECK_MAX_HEADER_BYTES", DEFAULTS.header_bytes, at_least=1024
)
ROLLDECK_MAX_HEADER_SECONDS = env.integer(
    "ROLLDECK_MAX_HEADER_SECONDS", DEFAULTS.header_seconds, at_least=1
)
ROLLDECK_MAX_IDLE_SECONDS = env.integer(
    "ROLLDECK_MAX_IDLE_SECONDS", DEFAULTS.idle_seconds, at_least=1
)
# A body may lag behind this rate by ROLLDECK_MAX_IDLE_SECONDS; 0: no minimum.
ROLLDECK_MIN_BODY_BYTES_PER_SECOND = env.integer(
    "ROLLDECK_MIN_BODY_BYTES_PER_SECOND", 4096, at_least=0
)
ROLLDECK_MAX_WAIT_SECONDS = env.integer(
    "ROLLDECK_MAX_WAIT_SECONDS", DEFAULTS.wait_seconds, at_least=0, at_most=60
)
# Decoders recurse; a depth below 200 cannot overflow the stack.
ROLLDECK_MAX_JSON_DEPTH = env.integer(
    "ROLLDECK_MAX_JSON_DEPTH", DEFAULTS.json_depth, at_least=4, at_most=200
)
ROLLDECK_MAX_JSON_VALUES = env.integer(
    "ROLLDECK_MAX_JSON_VALUES", DEFAULTS.json_values, at_least=1000
)
ROLLDECK_MAX_GROUPS_PER_PUSH = env.integer(
    "ROLLDECK_MAX_GROUPS_PER_PUSH", DEFAULTS.groups_per_push, at_least=1
)
ROLLDECK_MAX_SEQUENCES_PER_GROUP = env.integer(
    "ROLLDECK_MAX_SEQUENCES_PER_GROUP", DEFAULTS.sequences_per_group, at_least=1
)
ROLLDECK_MAX_TOKENS_PER_SEQUENCE = env.integer(
    "ROLLDECK_MAX_TOKENS_PER_SEQUENCE", DEFAULTS.tokens_per_sequence, at_least=1
)
ROLLDECK_MAX_TOKENS_PER_GROUP = env.integer(
    "ROLLDECK_MAX_TOKENS_PER_GROUP", DEFAULTS.tokens_per_group, at_least=1
)
ROLLDECK_MAX_VALUES_PER_GROUP = env.integer(
    "ROLLDECK_MAX_VALUES_PER_GROUP", DEFAULTS.values_per_group, at_least=1000
)
ROLLDECK_MAX_QUEUED_GROUPS = env.integer(
    "ROLLDECK_MAX_QUEUED_GROUPS", DEFAULTS.queued_groups, at_least=1
)
ROLLDECK_MAX_QUEUED_FRAGMENTS = env.integer(
    "ROLLDECK_MAX_QUEUED_FRAGMENTS", DEFAULTS.queued_fragments, at_least=1
)
ROLLDECK_MAX_RUN_BYTES = env.integer("ROLLDECK_MAX_RUN_BYTES", DEFAULTS.run_bytes, at_least=1)
# Minimum free space on the disks of ROLLDECK_VAR; below it bulk data is refused with 507.
ROLLDECK_MIN_FREE_DISK_BYTES = env.integer("ROLLDECK_MIN_FREE_DISK_BYTES", 1024**3, at_least=0)

# --- API ---
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "runs.access.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["runs.access.api.permissions.Denied"],
    "DEFAULT_SCHEMA_CLASS": "runs.lifecycle.api.runs.OperationSchema",
    "EXCEPTION_HANDLER": "config.errors.handle",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "web.http.negotiation.SingleFormat",
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Rolldeck",
    "DESCRIPTION": "REST API of Rolldeck: runs, trajectory groups, batches, weights and fleets.",
    "VERSION": __version__,
    "SERVERS": [{"url": "/", "description": "The server that returns this document."}],
    "LICENSE": {"name": "MIT", "identifier": "MIT"},
    "CONTACT": {
        "name": "The Rolldeck authors",
        "url": "https://github.com/rolldeck/rolldeck/issues",
    },
    "OAS_VERSION": "3.1.1",  # uses JSON Schema 2020-12, like msgspec
    "SERVE_INCLUDE_SCHEMA": False,
    "COMPONENT_SPLIT_REQUEST": True,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "PATH_CONVERTER_OVERRIDES": {
        "slug": {"type": "string", "pattern": "^[-a-zA-Z0-9_]+$"},
        "small": {"type": "string", "pattern": "^[0-9]{1,9}$"},
        "large": {"type": "string", "pattern": "^[0-9]{1,18}$"},
        "step": {"type": "string", "pattern": "^(-1|[0-9]{1,9})$"},
    },
    # The only default hook names enums, and cannot process msgspec's.
    "POSTPROCESSING_HOOKS": [
        "config.api_document.describe_sockets",
        "config.api_document.add_examples",
    ],
}

# --- Admin ---
# Shown at the top of the admin, to tell deployments apart.
ROLLDECK_DEPLOYMENT = env.text("ROLLDECK_DEPLOYMENT")
ROLLDECK_DEPLOYMENT_COLOUR = env.choice(
    "ROLLDECK_DEPLOYMENT_COLOUR", "info", of=("info", "success", "warning", "danger")
)
UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Rolldeck",
    "SITE_HEADER": "Rolldeck admin",
    "SITE_URL": "/",
    "SITE_SYMBOL": "deployed_code",
    # The dashboard's icon; without it each admin page requests a missing favicon.ico.
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "/static/app/mark.svg"}],
    **_THEME,
    "SHOW_BACK_BUTTON": True,
    "DASHBOARD_CALLBACK": "config.admin_site.attention",
    "ENVIRONMENT": "config.admin_site.deployment",
    "LOGIN": {"form": "config.admin_site.LoginForm"},
    "SIDEBAR": {
        "show_search": True,
        "command_search": True,  # Ctrl-K; this version's small search lacks keyboard selection
        "show_all_applications": True,
        "navigation": "config.admin_site.navigation",
    },
}

# --- People ---
AUTH_USER_MODEL = "runs.User"
# The only backend, so every password check counts as an attempt.
AUTHENTICATION_BACKENDS = ["runs.access.services.passwords.CountedPasswords"]
PASSWORD_HASHERS = ["runs.access.services.passwords.BoundedPBKDF2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
] + [{"NAME": "runs.access.services.passwords.ContextWords"}]
LOGIN_URL = "/login"
LOGIN_REDIRECT_URL = "/"

# --- Static files: the built dashboard and the admin's ---
STATIC_URL = "static/"
STATIC_ROOT = ROLLDECK_VAR / "static"
STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns about a missing folder
FRONTEND_DIST = BASE_DIR / "frontend" / "dist"
GUIDE_SITE = BASE_DIR / "build" / "docs"  # `make docs` writes it; a wheel has docs.zip beside it
STATICFILES_DIRS = [("app", FRONTEND_DIST)] if FRONTEND_DIST.is_dir() else []
WHITENOISE_USE_FINDERS = True
# Vite puts a hash of the content into these names, so browsers may cache them permanently.
WHITENOISE_IMMUTABLE_FILE_TEST = r"^/static/app/assets/.+-[\w-]{8}\.\w+$"

# --- Time: without TIME_ZONE Django sets the process to America/Chicago ---
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False
FORMAT_MODULE_PATH = "config.formats"

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "filters": {
        "one line": {"()": "config.log_filters.OneLine"},
        "limited lines": {"()": "config.log_filters.LimitedLines"},
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["limited lines"],
        }
    },
    "root": {"handlers": ["stderr"], "level": env.text("ROLLDECK_LOG_LEVEL", "INFO")},
    # Two jobs run every few seconds; their start and end are not logged.
    "loggers": {name: {"level": "WARNING"} for name in ("celery.beat", "celery.app.trace")}
    # A request with an unknown host is logged in one line, without a traceback.
    | {"django.security.DisallowedHost": {"filters": ["one line"]}},
}

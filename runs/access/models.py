"""Users, API tokens, and counters of password attempts."""

from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q


class User(AbstractUser):
    """A person with an account."""

    id = models.AutoField(primary_key=True)

    class Meta(AbstractUser.Meta):
        # The table of django.contrib.auth's own model, which the first versions used.
        db_table = "auth_user"


class TokenIssuer(models.TextChoices):
    """Source of a token's rights."""

    PERSON = "person", "a person, whose role limits the token"
    PLATFORM = "platform", "the server: the bootstrap token, and tokens created with it"
    MANAGER = "manager", "the server, for a fleet manager"


class ApiToken(models.Model):
    """An API token; only the hash of the secret is stored."""

    owner_role: int | None = None
    """Present role of the owner; set where a request is authenticated."""

    name = models.CharField(max_length=120)
    prefix = models.CharField(max_length=12, help_text="Shown in lists and logs.")
    # Hash of the whole token, whose entropy makes a plain hash irreversible.
    token_sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(
        default=list, help_text="trainer, env, worker, read, user, metrics, admin."
    )
    networks = models.JSONField(
        default=list, blank=True, help_text="Networks that may use it; empty for all."
    )
    # Null if the token is valid for all runs.
    run = models.ForeignKey(
        "runs.Run", null=True, blank=True, on_delete=models.CASCADE, related_name="tokens"
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.SET_NULL
    )
    issuer = models.CharField(max_length=8, choices=TokenIssuer.choices, default=TokenIssuer.PERSON)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar[list[models.BaseConstraint]] = [
            # Without an owner a person's token has no rights left.
            models.CheckConstraint(
                condition=Q(revoked_at__isnull=False)
                | (Q(issuer=TokenIssuer.PERSON) & Q(created_by__isnull=False))
                | (~Q(issuer=TokenIssuer.PERSON) & Q(created_by__isnull=True)),
                name="token_has_an_owner",
            )
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix})"


class LoginCount(models.Model):
    """Number of password attempts of one counter in its present window."""

    key = models.CharField(
        max_length=64, primary_key=True, help_text="Hash of a name, an address or a browser."
    )
    attempts = models.PositiveIntegerField()
    window_ends_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.attempts} attempts until {self.window_ends_at:%H:%M:%S}"

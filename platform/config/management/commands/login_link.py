"""Command that prints a one-time login link."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from config.embedded.services import Folders, manage_command, public_url
from runs.access.models import User
from runs.access.services.login_links import make_login_link


class Command(BaseCommand):
    """Print a one-time login link of an account."""

    help = "Print a link that signs an account in once, within 10 minutes."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the name of the account."""
        parser.add_argument("username", help="name of an active account")

    def handle(self, *_args: Any, **options: Any) -> None:
        """Print only the link, so that scripts can use it."""
        name = options["username"]
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise CommandError(
                f"no active account {name!r}; create one: {manage_command('createsuperuser')}"
            )
        path = make_login_link(user, now=timezone.now())
        self.stdout.write(public_url(Folders(settings.ROLLDECK_VAR).services) + path)

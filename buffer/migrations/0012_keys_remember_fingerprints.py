from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("buffer", "0011_runs_have_followers")]

    operations = [
        migrations.RenameField("idempotencyrecord", "body_sha256", "body_fingerprint"),
    ]

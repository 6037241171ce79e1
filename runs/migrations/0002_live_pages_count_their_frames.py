"""Add the sequence that numbers the frames of live pages over all processes."""

from django.db import migrations


class Migration(migrations.Migration):
    """Numbers only rise, whichever process sends the frame."""

    dependencies = [("runs", "0001_runs_begin")]

    operations = [
        migrations.RunSQL(
            sql="CREATE SEQUENCE runs_live_sequence AS bigint",
            reverse_sql="DROP SEQUENCE runs_live_sequence",
        ),
    ]

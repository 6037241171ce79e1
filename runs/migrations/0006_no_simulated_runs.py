from django.db import migrations

# Runs that were simulated stay as ordinary runs that have ended.
ENDED = """
    UPDATE runs_run SET status = 'stopped', status_changed_at = now(),
        status_reason = 'this version has no simulated runs'
    WHERE is_simulated AND status IN
        ('queued', 'starting', 'running', 'paused', 'draining')"""
CONFIGS = """
    UPDATE runs_run SET config = config #- '{buffer,serves_simulated}'
        WHERE config #> '{buffer,serves_simulated}' IS NOT NULL;
    UPDATE runs_project SET config = config #- '{buffer,serves_simulated}'
        WHERE config #> '{buffer,serves_simulated}' IS NOT NULL;
    UPDATE runs_savedobject SET body = body #- '{buffer,serves_simulated}'
        WHERE body #> '{buffer,serves_simulated}' IS NOT NULL;"""


class Migration(migrations.Migration):
    dependencies = [
        ("runs", "0005_deployment"),
    ]

    operations = [
        migrations.RunSQL(ENDED, migrations.RunSQL.noop),
        migrations.RunSQL(CONFIGS, migrations.RunSQL.noop),
        # A table with pending events of deferred constraints cannot be altered.
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.RemoveField(model_name="run", name="is_simulated"),
        migrations.RemoveField(model_name="run", name="serves_simulated"),
    ]

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0008_alert_kinds_of_diagnoses'),
    ]

    operations = [
        # The link of a comparison holds the same view; its events stay.
        migrations.RunSQL(
            "DELETE FROM runs_savedobject WHERE kind = 'comparison'", migrations.RunSQL.noop
        ),
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.RemoveConstraint(
            model_name='savedobject',
            name='saved_object_kind_is_known',
        ),
        migrations.AlterField(
            model_name='savedobject',
            name='body',
            field=models.JSONField(help_text='A complete RunConfig or a MetricView.'),
        ),
        migrations.AlterField(
            model_name='savedobject',
            name='kind',
            field=models.CharField(choices=[('preset', 'preset'), ('layout', 'layout')], max_length=12),
        ),
        migrations.AlterField(
            model_name='savedobject',
            name='text',
            field=models.TextField(blank=True, help_text='Description of a preset.'),
        ),
        migrations.AddConstraint(
            model_name='savedobject',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ('preset', 'layout'))), name='saved_object_kind_is_known'),
        ),
    ]

"""A delivery may be a sample, of no alert; each says how long its last attempt took."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0012_alerts_tell_of_stale_data'),
    ]

    operations = [
        migrations.AddField(
            model_name='alertdelivery',
            name='last_took_ms',
            field=models.PositiveIntegerField(blank=True, help_text='From the begin of the last attempt to its end.', null=True),
        ),
        migrations.AlterField(
            model_name='alertdelivery',
            name='alert',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='runs.alert'),
        ),
        migrations.AlterField(
            model_name='alertdelivery',
            name='change',
            field=models.CharField(choices=[('raised', 'raised'), ('acknowledged', 'acknowledged'), ('resolved', 'resolved'), ('test', 'test')], max_length=12),
        ),
        migrations.AddIndex(
            model_name='alertdelivery',
            index=models.Index(models.F('target_fingerprint'), models.OrderBy(models.F('id'), descending=True), condition=models.Q(('change', 'test')), name='alert_delivery_tests'),
        ),
        migrations.AddConstraint(
            model_name='alertdelivery',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('alert', None), ('change', 'test')), models.Q(('alert__isnull', False), models.Q(('change', 'test'), _negated=True)), _connector='OR'), name='alert_delivery_is_of_an_alert'),
        ),
    ]

"""People make rules for alerts, and let alerts tell nobody for a while."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0014_weights_are_ordered'),
    ]

    operations = [
        migrations.AddField(
            model_name='alert',
            name='is_held_back',
            field=models.BooleanField(db_default=False, default=False, help_text='Silenced when it was raised; nobody was told.'),
        ),
        migrations.AlterField(
            model_name='alert',
            name='kind',
            field=models.CharField(choices=[('run_failed', 'run_failed'), ('run_not_starting', 'run_not_starting'), ('run_stalled', 'run_stalled'), ('training_stalled', 'training_stalled'), ('stale_drops', 'stale_drops'), ('fleet_silent', 'fleet_silent'), ('workers_down', 'workers_down'), ('lesson_stalled', 'lesson_stalled'), ('lesson_regressed', 'lesson_regressed'), ('lease_lapsed', 'lease_lapsed'), ('batch_quarantined', 'batch_quarantined'), ('items_corrupt', 'items_corrupt'), ('ledger_unbalanced', 'ledger_unbalanced'), ('queue_full', 'queue_full'), ('disk_low', 'disk_low'), ('rule', 'rule')], max_length=40),
        ),
        migrations.AlterField(
            model_name='alertdelivery',
            name='target',
            field=models.CharField(help_text='Scheme and host of a webhook, or a mail address.', max_length=260),
        ),
        migrations.CreateModel(
            name='AlertRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(help_text='The title of its alerts.', max_length=80)),
                ('metric', models.CharField(max_length=120)),
                ('comparator', models.CharField(choices=[('above', 'above'), ('at_least', 'at_least'), ('below', 'below'), ('at_most', 'at_most'), ('not_finite', 'not_finite')], max_length=12)),
                ('threshold', models.FloatField(blank=True, help_text='Null: nothing is compared.', null=True)),
                ('for_seconds', models.PositiveIntegerField(default=0, help_text='How long it may be so.')),
                ('severity', models.CharField(choices=[('warning', 'warning'), ('error', 'error')], max_length=8)),
                ('runbook', models.TextField(blank=True, help_text='What to do about it.')),
                ('run_filter', models.CharField(blank=True, help_text='Which runs, where it is not one; empty: all.', max_length=500)),
                ('is_enabled', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(max_length=200)),
                ('changed_at', models.DateTimeField()),
                ('changed_by', models.CharField(max_length=200)),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='alert_rules', to='runs.run')),
            ],
        ),
        migrations.CreateModel(
            name='AlertSilence',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('run_failed', 'run_failed'), ('run_not_starting', 'run_not_starting'), ('run_stalled', 'run_stalled'), ('training_stalled', 'training_stalled'), ('stale_drops', 'stale_drops'), ('fleet_silent', 'fleet_silent'), ('workers_down', 'workers_down'), ('lesson_stalled', 'lesson_stalled'), ('lesson_regressed', 'lesson_regressed'), ('lease_lapsed', 'lease_lapsed'), ('batch_quarantined', 'batch_quarantined'), ('items_corrupt', 'items_corrupt'), ('ledger_unbalanced', 'ledger_unbalanced'), ('queue_full', 'queue_full'), ('disk_low', 'disk_low'), ('rule', 'rule')], max_length=40)),
                ('until', models.DateTimeField()),
                ('reason', models.TextField()),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(max_length=200)),
                ('ended_at', models.DateTimeField(blank=True, help_text='By a person, before its time.', null=True)),
                ('ended_by', models.CharField(blank=True, max_length=200)),
                ('rule', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='silences', to='runs.alertrule')),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='alert_silences', to='runs.run')),
            ],
        ),
        migrations.AddConstraint(
            model_name='alertrule',
            constraint=models.CheckConstraint(condition=models.Q(('run', None), ('run_filter', ''), _connector='OR'), name='alert_rule_has_one_scope'),
        ),
        migrations.AddConstraint(
            model_name='alertrule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('comparator', 'not_finite'), ('threshold', None)), models.Q(models.Q(('comparator', 'not_finite'), _negated=True), ('threshold__isnull', False)), _connector='OR'), name='alert_rule_compares_with_something'),
        ),
        migrations.AddIndex(
            model_name='alertsilence',
            index=models.Index(models.OrderBy(models.F('until'), descending=True), condition=models.Q(('ended_at', None)), name='alert_silence_lasting'),
        ),
        migrations.AddConstraint(
            model_name='alertsilence',
            constraint=models.CheckConstraint(condition=models.Q(('rule', None), ('kind', 'rule'), _connector='OR'), name='alert_silence_of_a_rule'),
        ),
    ]

"""People write upon charts, and keep how they look at metrics."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('rollouts', '0019_workers_are_kept_out'),
        ('runs', '0015_people_make_alert_rules'),
    ]

    operations = [
        migrations.CreateModel(
            name='Annotation',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('text', models.CharField(max_length=200)),
                ('at', models.DateTimeField(help_text='The moment that it is about.')),
                ('step', models.BigIntegerField(blank=True, help_text='Train step of that moment.', null=True)),
                ('amount', models.BigIntegerField(blank=True, help_text='Tokens served by then; env steps made, of a fleet run.', null=True)),
                ('created_at', models.DateTimeField()),
                ('created_by', models.CharField(max_length=200)),
                ('deleted_at', models.DateTimeField(blank=True, null=True)),
                ('deleted_by', models.CharField(blank=True, max_length=200)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='annotations', to='runs.run')),
            ],
            options={
                'indexes': [models.Index(models.F('run'), models.OrderBy(models.F('at'), descending=True), condition=models.Q(('deleted_at', None)), name='annotation_of_run')],
            },
        ),
        migrations.CreateModel(
            name='MetricLayout',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('owner', models.CharField(help_text='Who made it.', max_length=200)),
                ('tag', models.CharField(blank=True, max_length=40)),
                ('look', models.JSONField(help_text='A MetricLook.')),
                ('created_at', models.DateTimeField()),
                ('changed_at', models.DateTimeField()),
                ('changed_by', models.CharField(max_length=200)),
                ('run', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='metric_layouts', to='runs.run')),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('run', None), ('tag', ''), _connector='OR'), name='metric_layout_has_one_scope'), models.UniqueConstraint(condition=models.Q(('run', None), ('tag', '')), fields=('owner', 'name'), name='metric_layout_own_name'), models.UniqueConstraint(condition=models.Q(('run__isnull', False)), fields=('run', 'name'), name='metric_layout_name_in_run'), models.UniqueConstraint(condition=models.Q(('tag', ''), _negated=True), fields=('tag', 'name'), name='metric_layout_name_of_tag')],
            },
        ),
    ]

import django.db.models.deletion
from django.db import migrations, models

NAME_SERIES = """
    INSERT INTO rollouts_metricseries (run_id, name, chunks)
    SELECT DISTINCT run_id, name, 0 FROM rollouts_metricsample;
    UPDATE rollouts_metricsample m SET series_id = s.id
    FROM rollouts_metricseries s WHERE s.run_id = m.run_id AND s.name = m.name;
    SET CONSTRAINTS ALL IMMEDIATE;
"""
# Blocks are what a chart of a long run reads: they stay in the row, the columns go elsewhere.
KEEP_BLOCKS_IN_ROWS = """
    ALTER TABLE rollouts_metricchunk SET (toast_tuple_target = 4080);
    ALTER TABLE rollouts_metricchunk
        ALTER COLUMN by_step SET STORAGE MAIN,
        ALTER COLUMN by_time SET STORAGE MAIN,
        ALTER COLUMN by_amount SET STORAGE MAIN;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('rollouts', '0011_weights_are_delivered'),
    ]

    operations = [
        migrations.CreateModel(
            name='MetricSeries',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=120)),
                ('chunks', models.PositiveIntegerField(default=0, help_text='Packed so far.')),
                ('packed_step', models.BigIntegerField(blank=True, null=True)),
                ('packed_value', models.FloatField(blank=True, null=True)),
                ('packed_at', models.DateTimeField(blank=True, null=True)),
                ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='metric_series', to='runs.run')),
            ],
            options={
                'verbose_name_plural': 'metric series',
                'constraints': [models.UniqueConstraint(fields=('run', 'name'), name='metric_series_is_one')],
            },
        ),
        migrations.CreateModel(
            name='MetricChunk',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', models.PositiveIntegerField(help_text='Counts the chunks of its series from 0.')),
                ('samples', models.PositiveIntegerField()),
                ('step_min', models.BigIntegerField()),
                ('step_max', models.BigIntegerField()),
                ('time_min', models.BigIntegerField(help_text='µs since 1970.')),
                ('time_max', models.BigIntegerField(help_text='µs since 1970.')),
                ('amount_min', models.BigIntegerField()),
                ('amount_max', models.BigIntegerField()),
                ('steps', models.BinaryField()),
                ('times', models.BinaryField(help_text='µs since 1970.')),
                ('amounts', models.BinaryField()),
                ('numbers', models.BinaryField(help_text='The values.')),
                ('by_step', models.BinaryField()),
                ('by_time', models.BinaryField()),
                ('by_amount', models.BinaryField()),
                ('series', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='packed', to='rollouts.metricseries')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('series', 'number'), name='metric_chunk_is_one'), models.CheckConstraint(condition=models.Q(('samples__gte', 1)), name='metric_chunk_has_a_sample')],
            },
        ),
        migrations.RunSQL(KEEP_BLOCKS_IN_ROWS, migrations.RunSQL.noop),
        migrations.CreateModel(
            name='RunGauge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('at', models.DateTimeField()),
                ('batch_ordinal', models.PositiveIntegerField(default=0)),
                ('group_id', models.BigIntegerField(default=0)),
                ('window_id', models.BigIntegerField(default=0)),
                ('tokens', models.PositiveBigIntegerField(default=0, help_text='In batches up to that one.')),
                ('accepted', models.PositiveBigIntegerField(default=0, help_text='Items at that time.')),
                ('served', models.PositiveBigIntegerField(default=0, help_text='Items at that time.')),
                ('truncated', models.PositiveBigIntegerField(default=0, help_text='Episodes of lessons.')),
                ('episodes', models.PositiveBigIntegerField(default=0, help_text='Episodes of lessons.')),
                ('run', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='gauge', to='runs.run')),
            ],
        ),
        migrations.RemoveIndex(
            model_name='metricsample',
            name='metric_sample_by_name',
        ),
        migrations.AddField(
            model_name='metricsample',
            name='amount',
            field=models.BigIntegerField(default=0, help_text='Tokens that the run had served by then; env steps made, of a fleet run.'),
        ),
        migrations.AddField(
            model_name='metricsample',
            name='series',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='samples', to='rollouts.metricseries'),
        ),
        migrations.RunSQL(NAME_SERIES, migrations.RunSQL.noop),
        migrations.RemoveField(
            model_name='metricsample',
            name='name',
        ),
        migrations.AlterField(
            model_name='metricsample',
            name='series',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='samples', to='rollouts.metricseries'),
        ),
        migrations.AlterField(
            model_name='metricsample',
            name='run',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='metric_samples', to='runs.run'),
        ),
        migrations.AlterField(
            model_name='metricsample',
            name='value',
            field=models.FloatField(help_text='May be NaN or infinite.'),
        ),
        migrations.AddIndex(
            model_name='metricsample',
            index=models.Index(fields=['series', 'id'], name='metric_sample_by_series'),
        ),
    ]

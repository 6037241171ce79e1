from django.db import migrations, models


class Migration(migrations.Migration):
    """Rules may ask for a metric that comes no more."""

    dependencies = [
        ('runs', '0019_runs_say_when_they_started'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='alertrule',
            name='alert_rule_compares_with_something',
        ),
        migrations.AlterField(
            model_name='alertrule',
            name='comparator',
            field=models.CharField(choices=[('above', 'above'), ('at_least', 'at_least'), ('below', 'below'), ('at_most', 'at_most'), ('not_finite', 'not_finite'), ('no_data', 'no_data')], max_length=12),
        ),
        migrations.AddConstraint(
            model_name='alertrule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('comparator__in', ['no_data', 'not_finite']), ('threshold', None)), models.Q(models.Q(('comparator__in', ['no_data', 'not_finite']), _negated=True), ('threshold__isnull', False)), _connector='OR'), name='alert_rule_compares_with_something'),
        ),
    ]

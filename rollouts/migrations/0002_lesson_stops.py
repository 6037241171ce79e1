from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('rollouts', '0001_initial'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='lesson',
            name='lesson_hold_is_known',
        ),
        migrations.AlterField(
            model_name='lesson',
            name='hold',
            field=models.CharField(blank=True, choices=[('', ''), ('locked', 'locked'), ('active', 'active'), ('stopped', 'stopped')], db_default='', default='', help_text='Where a person or a failure holds it; empty: the curriculum decides.', max_length=12),
        ),
        migrations.AddConstraint(
            model_name='lesson',
            constraint=models.CheckConstraint(condition=models.Q(('hold__in', ('', 'locked', 'active', 'stopped'))), name='lesson_hold_is_known'),
        ),
    ]

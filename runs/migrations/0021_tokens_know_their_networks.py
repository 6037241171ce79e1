from django.db import migrations, models


class Migration(migrations.Migration):
    """Tokens may be good from some addresses only."""

    dependencies = [
        ('runs', '0020_rules_ask_for_silence'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='networks',
            field=models.JSONField(blank=True, default=list, help_text='Addresses that it is good from; empty: all.'),
        ),
    ]

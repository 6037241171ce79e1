from django.db import migrations, models


class Migration(migrations.Migration):
    """Environments know how often their pushes were refused, and why."""

    dependencies = [
        ('runs', '0021_tokens_know_their_networks'),
    ]

    operations = [
        migrations.AddField(
            model_name='environment',
            name='refused',
            field=models.JSONField(blank=True, help_text='Its pushes that were refused, counted by reason.', null=True),
        ),
    ]

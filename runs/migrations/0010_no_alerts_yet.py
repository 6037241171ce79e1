from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0009_runs_are_found_by_words'),
    ]

    operations = [
        migrations.DeleteModel(name='AlertDelivery'),
        migrations.DeleteModel(name='Alert'),
    ]

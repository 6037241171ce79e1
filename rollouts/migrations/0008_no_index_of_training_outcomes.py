from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('rollouts', '0007_recorded_causes'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='lessonoutcome',
            name='lesson_outcome_newest_first',
        ),
    ]

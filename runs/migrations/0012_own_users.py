from django.db import migrations


def move(apps, source, target):
    """Move the content type of users, and with it their permissions and the admin's log."""
    types = apps.get_model("contenttypes", "ContentType").objects
    if not types.filter(app_label=target, model="user").exists():
        types.filter(app_label=source, model="user").update(app_label=target)


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0011_saved_views'),
        ('contenttypes', '0002_remove_content_type_name'),
    ]

    operations = [
        migrations.RunPython(
            lambda apps, _: move(apps, "auth", "runs"), lambda apps, _: move(apps, "runs", "auth")
        ),
    ]



from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0025_tokens_know_their_issuer'),
    ]

    operations = [
        migrations.AlterField(
            model_name='alert',
            name='kind',
            field=models.CharField(choices=[('run_failed', 'run_failed'), ('run_not_starting', 'run_not_starting'), ('run_stalled', 'run_stalled'), ('training_stalled', 'training_stalled'), ('stale_drops', 'stale_drops'), ('fleet_silent', 'fleet_silent'), ('workers_down', 'workers_down'), ('lesson_stalled', 'lesson_stalled'), ('lesson_regressed', 'lesson_regressed'), ('lease_lapsed', 'lease_lapsed'), ('batch_quarantined', 'batch_quarantined'), ('items_corrupt', 'items_corrupt'), ('ledger_unbalanced', 'ledger_unbalanced'), ('pushes_refused', 'pushes_refused'), ('queue_full', 'queue_full'), ('disk_low', 'disk_low'), ('rule', 'rule')], max_length=40),
        ),
        migrations.AlterField(
            model_name='alertsilence',
            name='kind',
            field=models.CharField(choices=[('run_failed', 'run_failed'), ('run_not_starting', 'run_not_starting'), ('run_stalled', 'run_stalled'), ('training_stalled', 'training_stalled'), ('stale_drops', 'stale_drops'), ('fleet_silent', 'fleet_silent'), ('workers_down', 'workers_down'), ('lesson_stalled', 'lesson_stalled'), ('lesson_regressed', 'lesson_regressed'), ('lease_lapsed', 'lease_lapsed'), ('batch_quarantined', 'batch_quarantined'), ('items_corrupt', 'items_corrupt'), ('ledger_unbalanced', 'ledger_unbalanced'), ('pushes_refused', 'pushes_refused'), ('queue_full', 'queue_full'), ('disk_low', 'disk_low'), ('rule', 'rule')], max_length=40),
        ),
    ]

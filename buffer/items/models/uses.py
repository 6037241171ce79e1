"""Model of the fragments in sampled batches."""

from django.db import models

from buffer.items.models.items import Batch, FragmentChunk


class BatchUse(models.Model):
    """A fragment in a sampled batch; a fragment may be in several batches."""

    batch = models.ForeignKey(Batch, db_index=False, on_delete=models.CASCADE, related_name="uses")
    item = models.ForeignKey(FragmentChunk, on_delete=models.CASCADE, related_name="+")
    position = models.PositiveIntegerField(help_text="In the batch.")
    importance_weight = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["batch", "position"], name="use_position_is_one"),
        ]

    def __str__(self) -> str:
        return f"fragment {self.item_id} in batch {self.batch_id}"

"""Models of tensors that trainers store by key, and of the objects that hold their bytes."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from runs.lifecycle.models import Run


class TensorObject(models.Model):
    """The body of one push of tensors, as a safetensors file.

    Its row is written before its bytes. It is removed when no tensor refers to it.
    """

    run = models.ForeignKey(Run, null=True, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=80, blank=True, help_text="Empty: in `content`.")
    content = models.BinaryField(null=True, help_text="Bytes of a small push.")
    size_bytes = models.PositiveBigIntegerField()
    created_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return self.name or f"object {self.pk}"


class StoredTensor(models.Model):
    """A tensor of a run, found by its key."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="+", db_index=False)
    # Compared by bytes, so that an index serves prefixes.
    key = models.CharField(max_length=500, db_collation="C")
    dtype = models.CharField(max_length=16, help_text="Name of safetensors.")
    codec = models.CharField(
        max_length=40, blank=True, help_text="Of a value that is no tensor; empty for a tensor."
    )
    shape = ArrayField(models.PositiveBigIntegerField())
    object = models.ForeignKey(TensorObject, on_delete=models.PROTECT, related_name="+")
    offset = models.PositiveBigIntegerField(help_text="In the object, in bytes.")
    size_bytes = models.PositiveBigIntegerField()
    crc32 = models.PositiveBigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="stored_tensor_key_is_one"),
        ]

    def __str__(self) -> str:
        return self.key

"""Models of tokenizer files, and of the runs that use them."""

from django.db import models

from runs.lifecycle.models import Run


class TokenizerFile(models.Model):
    """A `tokenizer.json`, stored once for all runs. It is removed when no run uses it."""

    sha256 = models.CharField(max_length=64, primary_key=True)
    size_bytes = models.PositiveIntegerField()
    tokens = models.PositiveIntegerField(help_text="Number of its tokens.")
    content = models.BinaryField(help_text="The file, in zstd.")
    texts = models.BinaryField(help_text="Texts of its tokens, in zstd.")
    created_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"tokenizer {self.sha256[:12]}"


class RunTokenizer(models.Model):
    """The tokenizer of a run."""

    run = models.OneToOneField(
        Run, primary_key=True, on_delete=models.CASCADE, related_name="tokenizer"
    )
    file = models.ForeignKey(TokenizerFile, on_delete=models.PROTECT, related_name="+")
    set_by = models.CharField(max_length=200)
    set_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"tokenizer of run {self.run_id}"

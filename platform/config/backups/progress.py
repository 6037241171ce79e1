"""Console progress of a backup."""

import rich.progress
from rich.console import Console
from rich.filesize import decimal as size

__all__ = ["Progress", "size"]


class Progress(rich.progress.Progress):
    """Number and size of the files so far, rewritten in a terminal; permanent lines anywhere."""

    def __init__(self) -> None:
        super().__init__(
            rich.progress.TextColumn("{task.description}: {task.fields[files]} files"),
            rich.progress.FileSizeColumn(),
            console=Console(stderr=True, highlight=False),
            transient=True,
        )
        self._shown = self.add_task("", total=None, visible=False, files=0)

    def report(self, text: str) -> None:
        """Write a permanent line."""
        self.console.print(text, markup=False)

    def count(self, what: str, *, files: int, size_bytes: int) -> None:
        """Show the totals so far."""
        self.update(self._shown, description=what, files=files, completed=size_bytes, visible=True)

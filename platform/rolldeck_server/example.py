"""Run an example trainer of the installation: ``python -m rolldeck_server.example NAME [ARGS]``.

Without a name, the command lists the examples. ``--copy FOLDER`` copies them, to read or to change;
a name that ends in ``.py`` is the path of a file, such as a changed copy.
"""

import ast
import runpy
import shutil
import sys
from pathlib import Path
from typing import Final

from rolldeck_server import SOURCE, add_source

FOLDER: Final = SOURCE / "examples"


def main(words: list[str]) -> None:
    """Run, list or copy examples.

    Raises:
        SystemExit: If there is no such example, or the target exists.
    """
    if not words:
        print(_listing())  # noqa: T201 a command
    elif words[0] == "--copy" and len(words) == 2:
        _copy(Path(words[1]))
    else:
        _run(words[0], words[1:])


def _listing() -> str:
    files = sorted(FOLDER.glob("*.py"))
    texts = [ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) for file in files]
    lines = [
        f"  {file.stem:<16} {(text or '').splitlines()[0]}"
        for file, text in zip(files, texts, strict=True)
    ]
    return "\n".join([f"Examples in {FOLDER}:", *lines])


def _copy(target: Path) -> None:
    if target.exists():
        sys.exit(f"{target} exists already; name a new folder")
    shutil.copytree(FOLDER, target, ignore=shutil.ignore_patterns("__pycache__"))
    print(f"Copied the examples to {target}")  # noqa: T201


def _run(name: str, words: list[str]) -> None:
    """Run the file of this path, or the example of this name."""
    file = Path(name) if name.endswith(".py") else FOLDER / f"{Path(name).name}.py"
    if not file.is_file():
        sys.exit(f"there is no example {name!r}\n{_listing()}")
    add_source()
    sys.argv[:] = [str(file), *words]
    runpy.run_path(str(file), run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])

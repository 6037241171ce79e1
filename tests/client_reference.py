"""The reference of the client, printed from its docstrings.

``python -m tests.client_reference > docs/reference/client.md`` (`make schema`) writes the page.
"""

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

import rolldeck

MODULES: Final = {
    "rolldeck.client": ["Runs"],
    "rolldeck.batches": ["Batch"],
    "rolldeck.errors": None,
    "rolldeck.training.returns": ["transitions", "gae", "vtrace", "Transitions", "TrainingTargets"],
    "rolldeck.training.chunks": ["Chunk", "join", "stack"],
    "rolldeck.training.popart": ["PopArt"],
    "rolldeck.training.advantages": ["of_batch", "with_variance", "token_weights"],
    "rolldeck.group_files": ["GroupFiles", "read_groups"],
    "rolldeck.padding": ["padded"],
}
"""Modules beside the package, and their names on the page; of `None` all classes."""
HEAD: Final = """\
# The Python client

`pip install rolldeck` installs it. Every entry reads `ROLLDECK_URL` and `ROLLDECK_TOKEN` where \
`url` and `token` are left out. [Your trainer](../start/trainer.md) and \
[Write a trainer](../howto/trainers.md) show the use. This page is printed from the docstrings.
"""
SECTION: Final = re.compile(r"(?m)^(Args|Returns|Yields|Raises|Attributes):$")


def page() -> str:
    """Return the page as Markdown."""
    parts = [HEAD, "## rolldeck"]
    for name in rolldeck.__all__:
        if name != "__version__":
            parts += described(name, getattr(rolldeck, name))
    for module_name, names in MODULES.items():
        module = import_module(module_name)
        parts.append(f"## {module_name}")
        for name in names if names is not None else classes_of(module):
            if name in rolldeck.__all__:
                continue
            parts += described(name, getattr(module, name))
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join(part.rstrip() for part in parts)) + "\n"


def classes_of(module: Any) -> list[str]:
    """Return the names of the public classes that a module defines, in its order."""
    return [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__ and name[0] != "_"
    ]


def described(name: str, value: Any) -> Iterator[str]:
    """Yield the parts of a class or a function."""
    yield f"### {name}"
    if not inspect.isclass(value):
        yield f"```python\n{name}{signature(value)}\n```"
        yield markdown(value)
        return
    own_init = inspect.isfunction(vars(value).get("__init__"))
    if own_init and not issubclass(value, Exception):
        yield f"```python\n{name}{signature(value.__init__, is_method=True)}\n```"
    yield markdown(value)
    if own_init and inspect.getdoc(value.__init__) and value.__init__.__doc__:
        yield sections_of(inspect.getdoc(value.__init__) or "")
    for method, member in methods(value):
        called = "" if isinstance(member, property) else signature(member, is_method=True)
        yield f"**`{name}.{method}{called}`**"
        yield markdown(member)


def methods(value: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties with a docstring, in the order of the source."""
    seen: set[str] = set()
    for owner in value.__mro__:
        if not owner.__module__.startswith("rolldeck"):
            continue
        for name, member in vars(owner).items():
            if name[0] == "_" or name in seen:
                continue
            seen.add(name)
            found = getattr(member, "__func__", member)  # of a class method
            is_callable = inspect.isfunction(found) or isinstance(member, property)
            if is_callable and member.__doc__:
                yield name, member if isinstance(member, property) else found


def signature(function: Callable[..., Any], *, is_method: bool = False) -> str:
    """Return the signature of a function, without `self` and the modules of its types."""
    found = inspect.signature(function)
    parameters = list(found.parameters.values())[1 if is_method else 0 :]
    text = str(found.replace(parameters=parameters, return_annotation=found.return_annotation))
    text = re.sub(r"((?:: |-> |\[|, ))'([\w\[\], |.]+)'(?=[\],)\s]|$)", _type, text)
    text = re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text)
    text = re.sub(r"ndarray\[tuple\[Any, \.\.\.\], dtype\[(\w+)(?:\[Any\])?\]\]", "NDArray", text)
    text = re.sub(r"frozenset\(\{(.*?)\}\)", _set, text)
    return text.replace("~", "").removesuffix(" -> None")


def _set(found: re.Match[str]) -> str:
    """Return a set in alphabetical order, because its own differs between processes."""
    return f"{{{', '.join(sorted(found[1].split(', ')))}}}"


def _type(found: re.Match[str]) -> str:
    """Return an annotation that is a text without its quotes; a literal keeps them."""
    return f"{found[1]}{found[2]}" if found[1] in {": ", "-> "} else found[0]


def markdown(value: Any) -> str:
    """Return the docstring of a value as Markdown."""
    text = inspect.getdoc(value) or ""
    prose = SECTION.split(text)[0].rstrip()
    prose = re.sub(r"(?m)^::\n\n((?:    .*\n?|\n)+)", _code, prose)
    prose = re.sub(r"(?ms)^(.*[^:\n]):: *\n\n((?:    .*\n?|\n)+)", r"\1:\n\n::\n\n\2", prose)
    prose = re.sub(r"(?m)^::\n\n((?:    .*\n?|\n)+)", _code, prose)
    return f"{inline(prose)}\n\n{sections_of(text)}".strip()


def _code(found: re.Match[str]) -> str:
    return f"```python\n{textwrap.dedent(found[1]).strip()}\n```\n\n"


def sections_of(text: str) -> str:
    """Return arguments, results and exceptions of a docstring as lists."""
    parts = SECTION.split(text)[1:]
    lines: list[str] = []
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        entries = re.split(r"\n(?=\S)", textwrap.dedent(body.strip("\n")))
        lines.append(f"{title}:\n")
        for entry in entries:
            joined = re.sub(r"\s+", " ", entry).strip()
            named = re.match(r"([\w, *.]+): (.*)", joined)
            is_named = named is not None and title not in {"Returns", "Yields"}
            lines.append(
                inline(f"- `{named[1]}`: {named[2]}" if is_named and named else f"- {joined}")
            )
        lines.append("")
    return "\n".join(lines).rstrip()


def inline(text: str) -> str:
    """Return text with the roles and double backquotes of reStructuredText as Markdown."""
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`") if "```" not in text else re.sub(r"(?<!`)``(?!`)", "`", text)


if __name__ == "__main__":
    sys.stdout.write(page())

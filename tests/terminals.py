"""Terminals in which the console blocks of a page are typed, command by command, by a reader."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from tests import processes
from tests.documented import Block
from tests.server import wait_until

_HERE_DOCUMENT: Final = re.compile(r"<<-?\s*'?(\w+)'?")


def typed_in(block: Block) -> Iterator[str]:
    """Yield the commands of a block in `console`, each with its further lines.

    A line is a command after `$ `. Indented lines continue it, and so do the lines of a here
    document.
    """
    lines = iter(block.text.splitlines())
    command = ""
    for line in lines:
        if line.startswith("$ "):
            if command:
                yield command
            command = line.removeprefix("$ ")
            if found := _HERE_DOCUMENT.search(command):
                for text in lines:
                    command += "\n" + text
                    if text == found[1]:
                        break
        elif line.startswith("    "):
            command += "\n" + line
    if command:
        yield command


class Terminal:
    """A shell whose output goes to a file."""

    def __init__(self, log: Path, *, folder: Path, environment: Mapping[str, str]) -> None:
        self.log = log
        self.is_busy = False
        with log.open("ab") as output:
            self._shell = processes.start(
                ["bash"],
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
            )

    def run(self, command: str, *, seconds: float) -> None:
        """Type a command and wait until it has ended with exit code 0."""
        self._type(f'{command}\necho "exit code $?."\n')
        (code,) = self._wait(r"(?m)^exit code (\d+)\.$", command, seconds=seconds)
        assert code == "0", f"{command}\n{self.text()[-3000:]}"

    def start(self, command: str, until: str, *, seconds: float) -> None:
        """Type a command that continues to run, and wait until its output matches `until`."""
        self.is_busy = True
        self._type(f"exec {command}\n")
        self._wait(until, command, seconds=seconds)

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        """Press Ctrl-C and close the terminal."""
        if self._shell.poll() is None:
            os.killpg(self._shell.pid, signal.SIGINT)
        self._input.close()
        try:
            self._shell.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            raise

    @property
    def _input(self) -> IO[bytes]:
        assert self._shell.stdin
        return self._shell.stdin

    def _type(self, text: str) -> None:
        self._begins = len(self.text())
        self._input.write(text.encode())
        self._input.flush()

    def _wait(self, pattern: str, command: str, *, seconds: float) -> Sequence[str]:
        def found() -> re.Match[str] | None:
            output = self.text()[self._begins :]
            match = re.search(pattern, output)
            assert match or self._shell.poll() is None, f"{command} ended:\n{output[-3000:]}"
            return match

        try:
            match = wait_until(found, seconds=seconds, what=f"{command}: {pattern}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.text()[-3000:]}") from None
        assert match
        return match.groups()


class Reader:
    """A reader who types the commands of a page in order.

    A command that continues to run occupies its terminal: the next block is typed in another one.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self.terminals: list[Terminal] = []
        self.seconds: list[tuple[float, str]] = []

    def follow(
        self, blocks: Sequence[Block], *, running: Mapping[str, str], seconds: float
    ) -> None:
        """Type the commands of blocks in `console`.

        Args:
            blocks: Blocks of the page; those in other languages are not typed.
            running: Texts of commands that continue to run, each with a pattern of the output that
                the next command waits for.
            seconds: Limit of each command.
        """
        for block in blocks:
            if block.language != "console":
                continue
            if not self.terminals or self.terminals[-1].is_busy:
                self.open()
            for command in typed_in(block):
                assert not self.terminals[-1].is_busy, f"no terminal is free for {command}"
                began = time.monotonic()
                until = next((text for name, text in running.items() if name in command), None)
                if until is None:
                    self.terminals[-1].run(command, seconds=seconds)
                else:
                    self.terminals[-1].start(command, until, seconds=seconds)
                self.seconds.append((time.monotonic() - began, command.splitlines()[0]))

    def open(self) -> None:
        """Open another terminal."""
        log = self.folder.parent / f"terminal-{len(self.terminals) + 1}.log"
        self.terminals.append(Terminal(log, folder=self.folder, environment=self.environment))

    def report(self, title: str) -> str:
        """Return the seconds of all commands, and of those that took one or more."""
        lines = [f"{took:7.1f} s  {command}" for took, command in self.seconds if took >= 1]
        total = sum(took for took, _ in self.seconds)
        return "\n".join([f"{title}: {total:.0f} s", *lines])


@contextmanager
def reader(folder: Path, environment: Mapping[str, str]) -> Iterator[Reader]:
    """Yield a reader whose terminals are closed afterwards, the newest first."""
    made = Reader(folder, environment)
    try:
        yield made
    finally:
        for terminal in reversed(made.terminals):
            terminal.close()

"""The tutorial, done as its reader does it: every block of the page, from the top to the end.

Blocks mean the same to the reader and to this test:

- `yaml` and `python` blocks are files; their first line is a comment with the name. After the name
  may stand `, section NAME`: then only that section of the YAML file is replaced, or added.
- `diff` blocks change a file: lines with `-` become those with `+`.
- `console` blocks are typed. A line after `$ ` is a command, the lines below it are all that it
  prints. `cordboard run` goes on in a terminal of its own, and so does a `cordboard chat` without
  `-m`, whose `you` lines are typed. A block without a command shows more of one of these two.

`…` stands for anything within a line. Figures that depend on the machine may differ: times, and the
names of calls. Of a spoken call what is said and done is compared, but not the waits, nor the
engine's own words to bridge them, which come on a busy machine.

Only the port is another one than the page's, because an engine may be running on this machine.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from cordboard.config.conversation import Silence
from cordboard_testkit.free_ports import free_port
from cordboard_testkit.patience import PATIENCE

pytestmark = pytest.mark.voices

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
PORT = "15000"
COMMANDS = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.M)
"""A command, of several lines if they end in a backslash, and what it prints."""
COMMAND_SECONDS = 300
"""For one command; the spoken call takes 35 s."""


@dataclass(frozen=True)
class Block:
    line: int
    language: str
    text: str

    @property
    def first(self) -> str:
        return self.text.partition("\n")[0]


def blocks() -> list[Block]:
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", PAGE, re.M | re.S)
    return [Block(PAGE.count("\n", 0, m.start()) + 2, m[1], m[2]) for m in found]


def test_the_page_has_every_kind_of_block() -> None:
    """So that a block that is marked otherwise is not left out without a word."""
    assert {block.language for block in blocks()} == {"yaml", "python", "diff", "console"}
    commands = [b for b in blocks() if b.language == "console" and "$ " in b.text]
    assert len(commands) >= 15


def test_the_tutorial_as_it_is_written(reader: Reader) -> None:
    for block in blocks():
        try:
            reader.follow(block)
        except AssertionError as error:
            raise AssertionError(f"docs/tutorial.md:{block.line}: {error}") from None


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    # a checkout after `make demo`; the reader activates its .venv
    (tmp_path / ".venv").symlink_to(sys.prefix)
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.leave()


@dataclass
class Reader:
    """Somebody at two terminals and an editor."""

    folder: Path
    port: str = field(default_factory=lambda: str(free_port()))
    state: Path = field(init=False)
    """The shell's folder and variables after the last command."""
    engine: Terminal | None = None
    chat: Terminal | None = None

    def __post_init__(self) -> None:
        self.state = self.folder / ".shell"
        self.state.write_text("")

    def follow(self, block: Block) -> None:
        match block.language:
            case "console" if "$ " in block.text:
                for command, expected in COMMANDS.findall(block.text):
                    self.types(command.replace(PORT, self.port), expected)
            case "console":
                self.sees_more(block.text)
            case "diff":
                self.changes_lines(block)
            case "yaml" | "python":
                self.writes(block)
            case other:
                raise AssertionError(f"what is a block of {other!r}?")

    # The editor.

    def writes(self, block: Block) -> None:
        named = re.fullmatch(r"# ([\w.]+)(?:, section (\w+))?", block.first)
        assert named is not None, f"no name of a file in {block.first!r}"
        name, section = named.groups()
        path = self.here / name
        if section is None:
            text = block.text
        else:
            new = block.text.partition("\n")[2]
            old = re.compile(rf"^{section}:.*\n(?:(?:[ #].*)?\n)*", re.M)
            before = path.read_text()
            assert len(old.findall(before)) <= 1
            has = old.search(before) is not None
            text = old.sub(lambda _: f"{new}\n", before) if has else f"{before}\n{new}"
        if name == "salon.yaml":
            text = re.sub(r"\nhealth: .*\n", "", text) + f"\nhealth: {{port: {self.port}}}\n"
        path.write_text(text)

    def changes_lines(self, block: Block) -> None:
        path = self.here / block.first.removeprefix("# ")
        text = path.read_text()
        hunks = re.findall(r"((?:^[ -].*\n)+)((?:^\+.*\n)+)", block.text, re.M)
        assert sum(map(len, map("".join, hunks))) == len(block.text) - len(block.first) - 1
        for before, added in hunks:
            old = re.sub(r"^.", "", before, flags=re.M)
            kept = "".join(f"{line[1:]}\n" for line in before.splitlines() if line[0] == " ")
            assert text.count(old) == 1, f"not there, or twice: {old}"
            text = text.replace(old, kept + re.sub(r"^.", "", added, flags=re.M))
        path.write_text(text)

    # The terminals.

    @property
    def here(self) -> Path:
        return Path(self.shell("pwd")[1].strip())

    def types(self, command: str, expected: str) -> None:
        if "cordboard run" in command:
            self.engine = Terminal.of(self, command)
            self.engine.shows(expected, in_order=False)
        elif "cordboard chat" in command and " -m " not in command:
            self.chat = Terminal.of(self, command)
            self.chat.converses(expected)
        else:
            status, shown = self.shell(command)
            assert comparable(shown) == comparable(expected) or matches(shown, expected), (
                f"$ {command}\n{shown}\n--- but the page says\n{expected}"
            )
            assert status == 0, f"$ {command}: exit status {status}\n{shown}"

    def sees_more(self, expected: str) -> None:
        """More of the conversation, or else of the engine's log."""
        if expected.startswith("you "):
            assert self.chat is not None
            self.chat.converses(expected)
        else:
            assert self.engine is not None
            self.engine.shows(expected, in_order=False)

    def shell(self, command: str) -> tuple[int, str]:
        """Run a command in the first terminal, whose folder and variables stay."""
        state = self.state
        done = subprocess.run(
            ["bash", "-c", f". {state}\n{command}\nstatus=$?; {REMEMBER} >{state}; exit $status"],
            cwd=self.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        return done.returncode, done.stdout

    def leave(self) -> None:
        for terminal in (self.chat, self.engine):
            if terminal is not None:
                terminal.close()


REMEMBER = '{ declare -px PATH; printf "cd %q\\n" "$PWD"; }'


def environment() -> dict[str, str]:
    """That of a reader: the PATH is the system's, so that only `activate` finds the program."""
    own = str(Path(sys.prefix, "bin"))
    path = [entry for entry in os.environ["PATH"].split(":") if entry != own]
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PYTHONPATH") if name in os.environ}
    return {**kept, "PATH": ":".join(path), "COLUMNS": "200"}


@dataclass
class Terminal:
    """One in which a program goes on."""

    program: subprocess.Popen[bytes]
    log: Path
    read: int = 0
    """How far it has been compared with the page, in characters."""

    @classmethod
    def of(cls, reader: Reader, command: str) -> Terminal:
        log = reader.folder / f"terminal-{len(list(reader.folder.glob('terminal-*')))}"
        with log.open("wb") as output:
            program = subprocess.Popen(
                ["bash", "-c", f". {reader.state}\n{command}"],
                env=environment(),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(program, log)

    def converses(self, lines: str) -> None:
        """Type what is said by `you`, and see what is answered."""
        typed = re.compile(r"^you +(.*)$")
        for line in lines.splitlines():
            said = typed.match(line)
            if said is not None:
                assert self.program.stdin is not None
                self.program.stdin.write(f"{said[1]}\n".encode())
                self.program.stdin.flush()
            self.shows(f"{line}\n")

    def shows(self, expected: str, *, in_order: bool = True) -> None:
        """Wait until the lines are there: one below the other, or anywhere in what is new."""
        wanted = [re.compile(pattern_of(line)) for line in expected.splitlines()]
        deadline = time.monotonic() + 3 * PATIENCE
        while True:
            new = self.log.read_text(errors="replace")[self.read :]
            lines = [plain(line) for line in new.splitlines()]
            if in_order:
                heads = lines[: len(wanted)]
                met = len(heads) == len(wanted) and new.count("\n") >= len(wanted)
                wrong = [h for w, h in zip(wanted, heads, strict=False) if not w.fullmatch(h)]
                assert not (met and wrong), f"{new}\n--- but the page says\n{expected}"
            else:
                met = all(any(w.fullmatch(line) for line in lines) for w in wanted)
            if met:
                taken = len(wanted) if in_order else len(lines)
                self.read += sum(len(line) for line in new.splitlines(keepends=True)[:taken])
                return
            assert self.program.poll() is None, f"it ended: {new}"
            assert time.monotonic() < deadline, f"{new}\n--- but the page says\n{expected}"
            time.sleep(0.05)

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.program.pid, signal.SIGTERM)
        try:
            self.program.wait(PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self.program.pid, signal.SIGKILL)
            if self.program.stdin is not None:
                with suppress(BrokenPipeError):
                    self.program.stdin.close()


BRIDGES = (*Silence().fillers,)
"""What the engine says by itself while an answer is late."""


def plain(line: str) -> str:
    """Without colours, and without what differs from run to run and from machine to machine."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()
    line = re.sub(r"^ +\d+\.\d\d s ", "0.00 s ", line)
    line = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID", line)
    return re.sub(r"\b\d+ ms\b", "0 ms", line)


def pattern_of(line: str) -> str:
    return ".*".join(re.escape(part) for part in plain(line).split("…"))


def matches(shown: str, expected: str) -> bool:
    pattern = "\n".join(pattern_of(line) for line in expected.splitlines())
    return re.fullmatch(pattern, "\n".join(map(plain, shown.splitlines()))) is not None


def comparable(shown: str) -> list[str]:
    """The lines of a command. Of a spoken call what is said and done, and nothing that tells of
    waits: these lines depend on how busy the machine is."""
    lines = [plain(line) for line in shown.splitlines()]
    waits = re.compile(r"0\.00 s (silence|filler|answered|interrupted|held|resumed) ")
    bridges = re.compile(rf"0\.00 s agent +({'|'.join(map(re.escape, BRIDGES))})")
    busy = re.compile(r"\d{4}-\d\d-\d\dT.*\bevent_loop_(was_)?blocked\b")
    return [
        line for line in lines if not (waits.match(line) or bridges.match(line) or busy.match(line))
    ]

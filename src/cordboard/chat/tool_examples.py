"""Saved arguments of tools, to try them with again: `tool-examples.json` in `admin.ui.data`.

Mode 0600. Kept in memory too: look-ups need no disk. Arguments under secret names are refused. Only
one engine may use a folder.
"""

from __future__ import annotations

import datetime
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from cordboard import private_files
from cordboard.errors import NotThere, StoreUnavailable, ToolExampleRefused
from cordboard.tools.masking import look_through
from cordboard.tools.secret_names import NO_NAMES, SecretNames
from cordboard.tools.tool import JsonObject

FILE = "tool-examples.json"
MOST_OF_TOOL = 50
MOST = 1_000
MOST_BYTES = 16 * 1024
"""Bytes of one example's arguments as JSON."""
_MOST_FILE = 2 * MOST * MOST_BYTES


@dataclass(frozen=True, slots=True)
class ToolExample:
    """Arguments of one tool."""

    id: str
    tool: str
    context: str
    """The context in whose eyes it is tried."""
    label: str
    arguments: JsonObject
    saved_by: str
    saved_at: str
    """ISO 8601."""


class ToolExamples:
    """The examples of one installation. `open`, `put` and `remove` block."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._changing = threading.Lock()
        self._examples: dict[tuple[str, str], ToolExample] = {}
        self._trouble = ""

    def open(self) -> None:
        """Read the file. One that cannot be read is left alone, and nothing can be saved then."""
        try:
            content: Any = orjson.loads(private_files.read(self._path, _MOST_FILE))
            read = [ToolExample(**each) for each in content["examples"]]
            self._examples = {(each.tool, each.id): each for each in read}
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, KeyError) as error:
            self._trouble = f"{self._path} cannot be read: {error}"

    def of_tool(self, tool: str) -> list[ToolExample]:
        """Return a tool's examples, by id. Raises `StoreUnavailable`."""
        self._check()
        return sorted(
            (each for (name, _), each in self._examples.items() if name == tool),
            key=lambda each: each.id,
        )

    def find(self, tool: str, example_id: str) -> ToolExample | None:
        """Return one; None if it is unknown. Raises `StoreUnavailable`."""
        self._check()
        return self._examples.get((tool, example_id))

    def put(self, example: ToolExample, secret: SecretNames = NO_NAMES) -> None:
        """Save an example, in place of one with that id. `secret`: the tool's own. Raises
        `ToolExampleRefused` and `StoreUnavailable`; then nothing has changed."""
        size = len(_checked(example.arguments, secret))
        if size > MOST_BYTES:
            raise ToolExampleRefused(f"the arguments have {size} bytes; at most {MOST_BYTES}")
        with self._changing:
            key = example.tool, example.id
            if key not in self._examples:
                if len(self._examples) >= MOST:
                    raise ToolExampleRefused(f"there are {MOST} examples already")
                if len(self.of_tool(example.tool)) >= MOST_OF_TOOL:
                    raise ToolExampleRefused(f"the tool has {MOST_OF_TOOL} examples already")
            self._write(self._examples | {key: example})

    def remove(self, tool: str, example_id: str) -> None:
        """Remove an example. Raises `NotThere` and `StoreUnavailable`."""
        with self._changing:
            if (tool, example_id) not in self._examples:
                raise NotThere("there is no such example")
            others = {k: v for k, v in self._examples.items() if k != (tool, example_id)}
            self._write(others)

    def _write(self, examples: dict[tuple[str, str], ToolExample]) -> None:
        self._check()
        content = {"version": 1, "examples": [asdict(each) for each in examples.values()]}
        try:
            private_files.make_folder(self._path.parent)
            private_files.replace(self._path, orjson.dumps(content), sync=True)
        except OSError as error:
            reason = error.strerror or error
            raise StoreUnavailable(f"{self._path} cannot be written: {reason}") from None
        self._examples = examples

    def _check(self) -> None:
        if self._trouble:
            raise StoreUnavailable(self._trouble)


def now() -> str:
    """Return this moment as in `ToolExample.saved_at`."""
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")


def _checked(arguments: JsonObject, secret: SecretNames) -> bytes:
    """Return the arguments as JSON. Raises `ToolExampleRefused`."""
    given = look_through(arguments, secret, lambda _: None)
    if given.secrets:
        raise ToolExampleRefused("an example keeps no secrets: leave out those arguments")
    try:
        return orjson.dumps(arguments)
    except TypeError as error:
        raise ToolExampleRefused(f"the arguments cannot be kept: {error}") from None

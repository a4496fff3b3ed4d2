"""A recorded call as a scenario: a test in which a simulated caller says the same again.

A scenario is a YAML file that people read and mend: the caller's lines, where they interrupted the
agent, and the tools that the agent used, with arguments and answers. `cordboard call --scenario`
plays it. Everything that takes a path blocks.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML

from cordboard import private_files
from cordboard.calls.history import CallHistory, ToolUse, Turn
from cordboard.config.yaml_document import parse
from cordboard.errors import ConfigError, ConfigProblem, HistoryError

NAME = r"[a-z0-9][a-z0-9-]{0,62}"
"""Name of a scenario; its file is `NAME.yaml`."""
MOST_BYTES = 4_000_000
_HEADING = """\
A scenario made from a recorded call; `cordboard call --scenario FILE` plays it.
Long numbers, dates, e-mail addresses and the caller's name are replaced. Other names, spoken
secrets, and numbers in words are as they were said: read it before you share it.
"""
_NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ufffe\uffff\u2028\u2029\ud800-\udfff]")
"""Characters that a YAML file does not hold, or not as they are."""
_NUMBER = re.compile(r"\+?\d(?:[\s()./,:;_\u2010-\u2015-]{0,3}\d){4,}")
"""Five digits and more, also with separators: telephone and card numbers, dates of birth."""
_WORD_OF_NAME = re.compile(r"[^\W\d_]{3,}")
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_MOST_NUMBER = 9_999
"""Greatest number of a tool's arguments and answers that is kept: as many digits as above."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class UsedTool(_Part):
    """A tool that the agent used before it answered a line."""

    name: str
    arguments: dict[str, Any] = {}
    status: str = "ok"
    answer: dict[str, Any] = {}
    """The data that the agent received."""
    spoken: str = ""
    """The answer as a sentence."""


class CallerLine(_Part):
    """One line of the caller."""

    says: str = Field(min_length=1)
    interrupts_after_ms: int | None = Field(None, ge=0)
    """Time from the first sound of the agent's answer before, which the caller does not let end."""
    tools: list[UsedTool] = []


class MadeFrom(_Part):
    """The call that it was made from."""

    call: str
    config: str = ""
    """Version of the configuration that the call ran on."""


class Scenario(_Part):
    """One scenario."""

    scenario: str = Field(pattern=f"^{NAME}$")
    context: str
    made_from: MadeFrom | None = None
    caller: list[CallerLine] = Field(min_length=1)
    ends: str = ""
    """Reason of the call's end, as in the ledger."""

    @property
    def tools(self) -> list[str]:
        """Names of all used tools, in order."""
        return [tool.name for line in self.caller for tool in line.tools]


def scenario_of(history: CallHistory, call_id: str, name: str) -> Scenario:
    """Return the scenario of a call. Raises `HistoryError` if no word of the caller is known."""
    hide = Redaction([history.caller_name], [history.caller_number])
    lines, before = [], history.turns.get(0)
    for turn in history.caller_turns:
        if says := hide.text(turn.understood or turn.heard):
            tools = [_tool(use, hide) for use in turn.tools if not use.parent]
            after = _interrupts_after(before, turn)
            lines.append(CallerLine(says=says, interrupts_after_ms=after, tools=tools))
        before = turn
    if not lines:
        raise HistoryError("no words of the caller are known, so there is nothing to say again")
    return Scenario(
        scenario=name,
        context=history.context,
        made_from=MadeFrom(call=call_id, config=history.config),
        caller=lines,
        ends=history.reason,
    )


def _tool(use: ToolUse, hide: Redaction) -> UsedTool:
    return UsedTool(
        name=use.name,
        arguments=hide.values(use.arguments),
        status=use.status,
        answer=hide.values(use.sent),
        spoken=hide.text(use.message),
    )


def _interrupts_after(before: Turn | None, turn: Turn) -> int | None:
    if before is None or before.interrupted is None or before.answer_start_ms is None:
        return None
    begin = before.answer_end_ms if turn.speech_ms is None else turn.speech_ms
    return None if begin is None else max(0, begin - before.answer_start_ms)


class Redaction:
    """Replaces what may tell who a caller is."""

    def __init__(self, names: Sequence[str], numbers: Sequence[str]) -> None:
        known = {each.strip() for each in (*names, *numbers)}
        known |= {word for name in names for word in _WORD_OF_NAME.findall(name)}
        # The longest first, so that a whole name is replaced once.
        words = [re.escape(each) for each in sorted(known, key=len, reverse=True) if len(each) > 1]
        pattern = rf"(?<!\w)(?:{'|'.join(words)})(?!\w)"
        self._known = re.compile(pattern, re.IGNORECASE) if words else None

    def text(self, text: str) -> str:
        """Return a text with zeros for the digits of long numbers, and stand-ins for the rest."""
        text = _NO_TEXT.sub(" ", text)
        if self._known is not None:
            text = self._known.sub(
                lambda found: "NAME" if any(map(str.isalpha, found[0])) else _zeros(found), text
            )
        return _NUMBER.sub(_zeros, _EMAIL.sub("name@example.org", text))

    def values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the same for the texts and numbers of JSON, and for the names of its keys."""
        return {self.text(key): self._value(value) for key, value in values.items()}

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return self.values(value)
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        if isinstance(value, int | float) and not -_MOST_NUMBER <= value <= _MOST_NUMBER:
            return 0
        # More digits would tell a place to the metre.
        return round(value, 2) if isinstance(value, float) else value


def _zeros(found: re.Match[str]) -> str:
    return re.sub(r"\d", "0", found[0])


def scenario_text(scenario: Scenario) -> str:
    """Return the YAML. Values that the reader would add are left out."""
    yaml, stream = YAML(typ="safe", pure=True), io.StringIO()
    yaml.default_flow_style, yaml.allow_unicode, yaml.width = False, True, 100
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(scenario.model_dump(exclude_defaults=True), stream)
    heading = "".join(f"# {line}\n" for line in _HEADING.splitlines())
    return f"{heading}\n{stream.getvalue()}"


def keep_scenario(folder: Path, scenario: Scenario) -> tuple[Path, str]:
    """Write a new file of mode 0600; return its path and text. Raises `HistoryError` for a name
    that is taken, and `OSError`."""
    path, text = folder / f"{scenario.scenario}.yaml", scenario_text(scenario)
    private_files.make_folder(folder)
    with private_files.alone(folder):
        if os.path.lexists(path):
            raise HistoryError(f"there is a scenario {scenario.scenario} already")
        private_files.replace(path, text.encode())
    return path, text


def read_scenario(path: Path) -> Scenario:
    """Return the scenario of a file. Raises `ConfigError` with its lines."""
    try:
        document = parse(private_files.read(path, MOST_BYTES).decode(), str(path))
    except UnicodeDecodeError:
        raise ConfigError([ConfigProblem("expected UTF-8", file=str(path))]) from None
    except OSError as error:
        message = f"the scenario cannot be read: {error.strerror or error}"
        raise ConfigError([ConfigProblem(message, file=str(path))]) from None
    problems = list(document.problems)
    try:
        scenario = Scenario.model_validate(document.tree)
    except ValidationError as error:
        problems += [document.problem(each["loc"], str(each["msg"])) for each in error.errors()]
    if problems:
        raise ConfigError(problems)
    return scenario

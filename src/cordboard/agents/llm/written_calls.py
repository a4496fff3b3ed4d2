"""Separates a model's spoken words from what it writes for machines: tool calls and thoughts.

Many models behind compatible servers write their tool calls into the text, each family in its own
notation (fenced or bare JSON, `<tool_call>`, `<function=name>`, `[TOOL_CALLS]`, `<|python_tag|>`,
harmony's channels, `CALL name {…}`), and their thoughts too (`<think>`). None of it may be spoken.

`WrittenCalls` reads one answer, piece by piece. It withholds only text that may still become a call
or a mark, so that other words are spoken at once. Pure, and the result does not depend on how the
text is cut into pieces: each decision waits for the text that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from cordboard.agent_api.language_model import TextPiece, ToolWish
from cordboard.agents.llm.call_syntax import CUT, CallSyntax
from cordboard.tools.provider_schema import ProviderTool

Written: TypeAlias = TextPiece | ToolWish
MOST_MARKED = 65_536
"""Most characters of one call; a longer one is neither understood nor spoken."""
MOST_BARE = 16_384
"""Most characters of JSON that nothing marks as a call."""
_LONGEST_END = 100
"""Most characters of a mark that ends something."""
_SILENT = frozenset(
    {
        *("think", "thinking", "thought", "thoughts", "reasoning", "reflection", "seed:think"),
        *("tool_response", "tool_result", "function_results"),
    }
)
"""Tags whose contents are thoughts, or a tool's result that the model has invented."""
_CALLS = frozenset(
    {
        *("tool_call", "tool_calls", "tools", "tool", "tool_use", "tool_code", "toolcall"),
        *("function_call", "function_calls", "functioncall", "function", "invoke"),
        *("minimax:tool_call", "seed:tool_call", "xai:function_call"),
        *("antml:function_calls", "antml:invoke"),
    }
)
"""Tags whose contents are tool calls."""
_DROPPED = frozenset({"parameter", "arg_key", "arg_value", "answer", "s"})
"""Tags that are dropped, but not their contents."""
_TAG_NAMES = _SILENT | _CALLS | _DROPPED
_TAG = re.compile(
    r"<(/?)(?:\uff5cDSML\uff5c)?([\w:.-]{1,64})((?:=|\s)[^<>]{0,200})?>|<([\w-]{1,64})\s?/>"
)
_TAG_BEGINS = re.compile(
    r"</?(?:\uff5c[DSML]{0,4}\Z|(?:\uff5cDSML\uff5c)?([\w:.-]{0,64})((?:=|\s|/)[^<>]{0,200})?\Z)"
)
_TOKEN = re.compile(r"<([|\uff5c])([^<>\n]{1,80}?)\1?>")
_TOKEN_BEGINS = re.compile(r"<(?:[|\uff5c][^<>\n]{0,81})?\Z")
_TOKEN_OF_CALLS = re.compile(
    r"python_tag|action_start|start_action|/?tool_call|tool_calls|tool_calls?(?:_section)?_(?:begin"
    r"|start)"
)
_ENDS_OF_CALLS = {
    "python_tag": re.compile(r"<\|(?:eo[mt]_id|im_end)\|>"),
    "tool_call": re.compile(r"<\|/tool_call\|>|<tool_call\|>|<\|(?:end|im_end)\|>"),
    "tool_calls": re.compile(r"<\|/tool_calls\|>|<\|(?:end|im_end)\|>"),
}
_HEAD_ENDS = re.compile(r"<\|message\|>")
_BODY_ENDS = re.compile(r"<\|(?:end|call|return)\|>|(?=<\|(?:start|channel)\|>)")
_ROLE = re.compile(r"<\|start\|>([\w.-]+)")
_RECIPIENT = re.compile(r"to=([\w.:/-]+)")
_ANALYSIS = re.compile(r"\s*analysis(?=[A-Z])")
_ANALYSIS_ENDS = re.compile(r"assistantfinal")
"""Harmony's marks, where a server has removed the tokens around them."""
_NEVER = re.compile(r"(?!)")
"""The contents go on to the end of the answer."""
_BRACKETS: dict[str, tuple[Literal["silent", "calls"], re.Pattern[str]]] = {
    "[TOOL_CALLS]": ("calls", _NEVER),
    "[TOOL_REQUEST]": ("calls", re.compile(r"\[END_TOOL_REQUEST\]")),
    "[TOOL_RESULT]": ("silent", re.compile(r"\[END_TOOL_RESULT\]")),
    "[THINK]": ("silent", re.compile(r"\[/THINK\]")),
}
"""Of Mistral's models, and of LM Studio for models without a form of their own."""
_BRACKETS_DROPPED = ("[/TOOL_CALLS]", "[/THINK]", "[END_TOOL_REQUEST]", "[ARGS]", "[CALL_ID]")
_OBJECT = re.compile(r"\{\s*(?=[\"}])|\[\s*\{\s*(?=\")")
_OBJECT_BEGINS = re.compile(r"\{\s*\Z|\[\s*(?:\{\s*)?\Z")
_FENCE = re.compile(r"```([\w-]*)\s*")
_FENCE_ENDS = re.compile(r"```")
_FENCES_OF_CALLS = frozenset({"tool_code", "tool_call", "tool_calls", "function_call"})
_BEFORE_OBJECT = re.compile(r"(?:\[ARGS\]|:)?\s*(?=\{\s*[\"}])")
_BEFORE_OBJECT_BEGINS = re.compile(r"\s*+(?:\[(?:A(?:R(?:G(?:S\]?)?)?)?)?|:)?\s*+(?:\{\s*+)?\Z")
_KEYWORDS = re.compile(r"\(\s*(?:\)|\{|[A-Za-z_]\w*\s*=)")
_KEYWORDS_BEGIN = re.compile(r"\(\s*(?:[A-Za-z_]\w*\s*)?\Z")
_CALL_WORDS = ("CALL", "Call", "call")
_LIST_WORD = "functools"
"""Before a list of calls (Phi-4-mini)."""
_CALL = re.compile(r"call:?[ \t]+([\w.-]{1,80})(?![\w.-])", re.IGNORECASE)
_CALL_BEGINS = re.compile(r"call:?[ \t]*[\w.-]{0,80}\Z", re.IGNORECASE)
_LINE_ENDS = re.compile(r"[ \t]*(?:\n|\Z)")
_SEPARATORS = re.compile(r"[\s;,}\])]*")
_IN_JSON = re.compile(r"[\"\\{}\[\]]")
_IN_PYTHON = re.compile(r"[\"'\\(){}\[\]]")
_LAST_WORD = re.compile(r"(?<![\w.-])[\w.-]+\Z")


@dataclass(slots=True)
class _Block:
    """Text that is not spoken, up to a mark."""

    kind: Literal["silent", "calls", "arguments", "child", "head"]
    ends: re.Pattern[str]
    name: str = ""
    """The tool's name; or what was before the contents."""
    scanned: int = 0


@dataclass(slots=True)
class _Brackets:
    """JSON, or Python's arguments, from one bracket to the one that closes it."""

    marks: re.Pattern[str]
    start: int
    scanned: int
    name: str = ""
    """The tool whose arguments these are; empty for JSON that is perhaps a call."""
    depth: int = 0
    quote: str = ""

    def end_in(self, text: str) -> int | None:
        """Return the end; None while it has not come. Reads each character once."""
        while (found := self.marks.search(text, self.scanned)) is not None:
            mark = found[0]
            if mark == "\\":
                if found.end() == len(text):
                    self.scanned = found.start()
                    return None
                self.scanned = found.end() + 1
                continue
            self.scanned = found.end()
            if self.quote:
                self.quote = "" if mark == self.quote else self.quote
            elif mark in "\"'":
                self.quote = mark
            else:
                self.depth += 1 if mark in "{[(" else -1
                if self.depth <= 0:
                    return self.scanned
        self.scanned = len(text)
        return None


class WrittenCalls:
    """Reads one answer of a model whose toolbox is `tools`."""

    def __init__(self, tools: Iterable[ProviderTool]) -> None:
        tools = tuple(tools)
        names = [tool.name for tool in tools if re.fullmatch(r"[\w-]+", tool.name)]
        names.sort(key=len, reverse=True)
        self._syntax = CallSyntax(tools)
        self._names = tuple(names)
        self._words = (_LIST_WORD, *_CALL_WORDS, *names, *(f"functions.{name}" for name in names))
        named = "|".join(map(re.escape, names)) or "(?!)"
        words = "|".join((_LIST_WORD, *_CALL_WORDS))
        self._marks = re.compile(
            rf"[<{{\[]|```|(?<![\w.-])(?:{words}|(?:functions\.)?(?:{named}))(?![\w-])"
        )
        self._text = ""
        self._at = 0
        """Position of the first character that is not read yet. The one before it is kept, because
        it tells whether a word begins."""
        self._open: _Block | _Brackets | None = None
        self._line_empty = True
        """True if only gaps and marks of a list or quote were spoken since the last line break."""
        self._line_listed = False
        """True if there were such marks: then a name alone is one that is listed, not called."""
        self._first = True
        """True until the beginning of the answer is judged."""
        self._after_call = False
        self._cut = False
        """True if the answer has reached its greatest length."""
        self._out: list[Written] = []

    def feed(self, text: str) -> list[Written]:
        """Take more text; return the words that are certainly to be spoken, and the calls."""
        self._text += text
        return self._read(final=False, cut=False)

    def flush(self, *, cut: bool = False) -> list[Written]:
        """Return the rest: the answer is over. `cut`: it reached its greatest length."""
        return self._read(final=True, cut=cut)

    def _read(self, *, final: bool, cut: bool) -> list[Written]:
        self._out, self._cut = [], cut
        while self._at < len(self._text) or (final and self._open is not None):
            if isinstance(self._open, _Block):
                went_on = self._read_block(self._open, final=final)
            elif self._open is not None:
                went_on = self._read_brackets(self._open, final=final)
            elif self._after_call:
                went_on = self._skip_separators(final=final)
            else:
                went_on = self._read_words(final=final)
            if not went_on:
                break
        self._forget(self._at - 1)
        return self._out

    def _forget(self, count: int) -> None:
        """Drop text that is read."""
        if count > 0:
            self._text = self._text[count:]
            self._at -= count
            if isinstance(self._open, _Block):
                self._open.scanned -= count
            elif self._open is not None:
                self._open.scanned -= count
                self._open.start -= count

    # What is given out.

    def _speak(self, end: int) -> bool:
        words, self._at = self._text[self._at : end], end
        if words:
            line = words.rpartition("\n")[2]
            blank = not line.strip(" \t`*>#-")
            began = "\n" in words
            self._line_empty = blank and (began or self._line_empty)
            self._line_listed = bool(line.strip(" \t`")) or (self._line_listed and not began)
            self._out.append(TextPiece(words))
        return True

    def _drop(self, end: int, calls: Iterable[ToolWish] = ()) -> bool:
        """Pass over text; a gap stands for it, so that the words around it do not join."""
        self._at, self._open, self._line_empty, self._line_listed = end, None, True, False
        self._out.append(TextPiece(" "))
        found = [*calls]
        self._after_call = bool(found)
        self._out += found
        return True

    def _begin(self, block: _Block, at: int) -> bool:
        self._at, self._open, block.scanned = at, block, at
        return True

    def _skip_separators(self, *, final: bool) -> bool:
        """Pass over what separates calls, superfluous brackets and the end of a fence."""
        found = _SEPARATORS.match(self._text, self._at)
        self._at = found.end() if found else self._at
        rest = self._text[self._at : self._at + 3]
        if rest == "```":
            self._at += 3
            return True
        if "```".startswith(rest) and not final:
            return False
        self._after_call = False
        return True

    # Words.

    def _read_words(self, *, final: bool) -> bool:
        text = self._text
        if self._first:
            rest = text[self._at :].lstrip()
            if not final and "analysis".startswith(rest[:8]) and len(rest) < 9:
                return False
            self._first = False
            if found := _ANALYSIS.match(text, self._at):
                return self._begin(_Block("silent", _ANALYSIS_ENDS), found.end())
        found = self._marks.search(text, self._at)
        if found is None:
            self._speak(len(text) if final else self._certain_end())
            return False
        at = found.start()
        if self._at < at:
            self._speak(at)
        match text[at]:
            case "<":
                went_on = self._read_tag(at, final=final)
            case "{" | "[":
                went_on = self._read_object(at, final=final)
            case "`":
                went_on = self._read_fence(at, final=final)
            case _:
                went_on = self._read_name(at, found.end(), final=final)
        return went_on

    def _certain_end(self) -> int:
        """Return the end of the words that cannot become a name or a fence."""
        text = self._text
        word = _LAST_WORD.search(text, self._at)
        if word and any(known.startswith(word[0]) for known in self._words):
            return word.start()
        return len(text) - (len(text[self._at :]) - len(text[self._at :].rstrip("`")))

    def _read_tag(self, at: int, *, final: bool) -> bool:
        text = self._text
        tag = _TAG.match(text, at)
        if tag and (tag[4] in self._names or self._is_tag(tag[2] or "")):
            return self._open_tag(tag)
        token = _TOKEN.match(text, at)
        if token:
            return self._open_token(token)
        if not final:
            begun = _TAG_BEGINS.match(text, at)
            if _TOKEN_BEGINS.match(text, at) or (begun and self._may_be_tag(begun)):
                return False
        return self._speak(at + 1)

    def _is_tag(self, name: str) -> bool:
        return name.lower() in _TAG_NAMES or name in self._names

    def _may_be_tag(self, begun: re.Match[str]) -> bool:
        name = begun[1] or ""
        if begun[2] is not None:
            return self._is_tag(name)
        low = name.lower()
        known = (*_TAG_NAMES, *self._names)
        return any(one.startswith((low, name)) for one in known)

    def _open_tag(self, tag: re.Match[str]) -> bool:
        if tag[4]:
            return self._drop(tag.end(), [self._syntax.call(tag[4], "{}")])
        name = tag[2].lower()
        last = re.escape(name.rpartition(":")[2])
        ends = re.compile(rf"</(?:\uff5cDSML\uff5c|\w{{1,20}}:)?{last}\s{{0,3}}>", re.IGNORECASE)
        if tag[1] or name in _DROPPED:
            return self._drop(tag.end())
        if name in _SILENT:
            return self._begin(_Block("silent", ends), tag.end())
        if name in _CALLS:
            return self._begin(_Block("calls", ends, tag[0] if tag[3] else ""), tag.end())
        ends = re.compile(rf"</{re.escape(tag[2])}\s{{0,3}}>")
        return self._begin(_Block("child", ends, tag[2]), tag.end())

    def _open_token(self, token: re.Match[str]) -> bool:
        name = token[2].replace("▁", "_").strip().lower()
        if name in ("start", "channel"):
            return self._begin(_Block("head", _HEAD_ENDS, token[0]), token.end())
        if name == "start_thinking":
            return self._begin(_Block("silent", re.compile(r"<\|END_THINKING\|>")), token.end())
        if _TOKEN_OF_CALLS.fullmatch(name):
            ends = _ENDS_OF_CALLS.get(name)
            if ends is None:
                mark = re.sub("begin|start", "end", token[0]).replace("START", "END")
                ends = re.compile(re.escape(mark))
            return self._begin(_Block("calls", ends), token.end())
        return self._drop(token.end())

    def _read_object(self, at: int, *, final: bool) -> bool:
        text = self._text
        for mark, (kind, ends) in _BRACKETS.items():
            if text.startswith(mark, at):
                return self._begin(_Block(kind, ends), at + len(mark))
        for mark in _BRACKETS_DROPPED:
            if text.startswith(mark, at):
                return self._drop(at + len(mark))
        if _OBJECT.match(text, at):
            self._open = _Brackets(_IN_JSON, at, at)
            return True
        rest = text[at : at + 100]
        listed = rest[1:].lstrip()
        if text[at] == "[" and listed.startswith(tuple(f"{name}(" for name in self._names)):
            self._at = at + 1
            return True
        if not final:
            marks = (*_BRACKETS, *_BRACKETS_DROPPED)
            names = (f"{name}(" for name in self._names)
            if (
                _OBJECT_BEGINS.match(text, at)
                or any(mark.startswith(rest) for mark in marks)
                or (rest[0] == "[" and any(name.startswith(listed) for name in names))
            ):
                return False
        return self._speak(at + 1)

    def _read_fence(self, at: int, *, final: bool) -> bool:
        """Read the beginning of a fence; it is dropped with the call that it contains."""
        text = self._text
        fence = _FENCE.match(text, at)
        assert fence is not None  # noqa: S101 - the caller has found its beginning
        inside = fence.end()
        if not final and (inside == len(text) or _OBJECT_BEGINS.match(text, inside)):
            return False
        if fence[1].lower() in _FENCES_OF_CALLS:
            return self._begin(_Block("calls", _FENCE_ENDS), inside)
        if _OBJECT.match(text, inside):
            self._open = _Brackets(_IN_JSON, inside, inside)
            return True
        return self._speak(inside)

    def _read_name(self, at: int, end: int, *, final: bool) -> bool:
        """Read a tool's name, or the word CALL at the beginning of a line."""
        text = self._text
        if end == len(text) and not final:
            return False
        name, called = text[at:end].removeprefix("functions."), False
        if name == _LIST_WORD and text.startswith("[", end):
            self._at = end
            return True
        if name in _CALL_WORDS and name not in self._names:
            if not self._line_empty:
                return self._speak(end)
            if not final and _CALL_BEGINS.match(text, at):
                return False
            found = _CALL.match(text, at)
            if found is None:
                return self._speak(end)
            called, name, end = name == "CALL", found[1].removeprefix("functions."), found.end()
        went_on = self._read_arguments(end, name, final=final)
        if went_on is not None:
            return went_on
        alone = self._line_empty and name in self._names
        alone = alone and (called or ("_" in name and not self._line_listed))
        line = _LINE_ENDS.match(text, end)
        if alone and line:
            cut = self._cut and line.end() == len(text)
            return self._drop(line.end(), [self._syntax.call(name, CUT if cut else "{}")])
        return self._speak(end if not called else at + len("CALL"))

    def _read_arguments(self, end: int, name: str, *, final: bool) -> bool | None:
        """Read what follows a tool's name; None: no arguments follow."""
        text = self._text
        if _KEYWORDS.match(text, end):
            self._at, self._open = end, _Brackets(_IN_PYTHON, end, end, name)
            return True
        gap = re.compile(r"\s*").match(text, end)
        found = _BEFORE_OBJECT.match(text, gap.end() if gap else end)
        if found:
            self._at = found.end()
            self._open = _Brackets(_IN_JSON, self._at, self._at, name)
            return True
        begun = _BEFORE_OBJECT_BEGINS.match(text, end) or _KEYWORDS_BEGIN.match(text, end)
        return False if begun and not final else None

    # What is not spoken.

    def _read_block(self, block: _Block, *, final: bool) -> bool:
        text = self._text
        end = block.ends.search(text, max(self._at, block.scanned - _LONGEST_END))
        block.scanned = len(text)
        stop = end.start() if end else len(text)
        if block.kind != "silent" and stop - self._at > MOST_MARKED:
            block.kind = "silent"
        if end is None and not final:
            if block.kind == "silent":
                self._at = max(self._at, len(text) - _LONGEST_END)
            return False
        contents = text[self._at : stop]
        past = end.end() if end else stop
        cut = self._cut and end is None
        match block.kind:
            case "silent":
                return self._drop(past)
            case "head":
                self._drop(past)
                self._open = self._body(block.name + contents) if end else None
                return True
            case "calls":
                return self._drop(past, self._syntax.calls_in(block.name + contents, cut=cut))
            case "child":
                return self._drop(past, [self._syntax.tagged_call(block.name, contents, cut=cut)])
            case "arguments":
                given = self._syntax.arguments_in(contents, cut=cut)
                return self._drop(past, [self._syntax.call(block.name, given)])

    def _body(self, head: str) -> _Block | None:
        """Return how the body of a message of harmony is read; None: it is spoken."""
        role, recipient = _ROLE.search(head), _RECIPIENT.search(head)
        if role and role[1] != "assistant":
            return _Block("silent", _BODY_ENDS)
        if recipient and recipient[1] not in ("user", "all", "assistant"):
            return _Block("arguments", _BODY_ENDS, recipient[1])
        return _Block("silent", _BODY_ENDS) if "<|channel|>analysis" in head else None

    def _read_brackets(self, held: _Brackets, *, final: bool) -> bool:
        text = self._text
        end = held.end_in(text)
        most = held.start + (MOST_MARKED if held.name else MOST_BARE)
        if (end or len(text)) > most:
            if held.name or self._syntax.json_calls(text[held.start : most], cut=True) is not None:
                return self._begin(_Block("silent", _NEVER), most)
            self._open = None
            return self._speak(most)
        if end is None and not final:
            return False
        cut, stop = self._cut and end is None, end or len(text)
        if not held.name:
            calls = self._syntax.json_calls(text[held.start : stop], cut=cut)
            if calls is None:
                self._open = None
                return self._speak(stop)
            return self._drop(stop, calls)
        if held.marks is _IN_PYTHON:
            inner = "" if cut else text[held.start + 1 : stop - 1 if end else stop]
        else:
            inner = text[held.start : stop]
        given = self._syntax.arguments_in(inner, cut=cut)
        return self._drop(stop, [self._syntax.call(held.name, given)])

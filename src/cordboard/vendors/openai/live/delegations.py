"""The tasks that an OpenAI Live model has delegated, and their tool calls.

A model of Responses does them within the session; its events arrive wrapped in `response.event`. It
waits for the results of all calls of a response, and then for our `response.create`. Only the end
of that response tells that it makes no further call. Pure bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from cordboard.agent_api.service_protocol import ProtocolHost
from cordboard.tools.tool import JsonObject
from cordboard.vendors.openai.realtime import messages
from cordboard.vendors.openai.realtime.messages import object_of, text_of

_HANDOFF = "Responses handoff"
"""Begins the errors that end a task without naming it (pydantic-ai has recorded one)."""
_MAX_ARGUMENTS = 100_000
LONGEST_SILENCE_MS = 60_000
"""Milliseconds of the session without an event of a task, while no tool runs for it, after which
the task counts as given up: the answer that waits for it would never end."""


@dataclass(slots=True)
class _Task:
    """One delegated task."""

    event_ms: float
    """Position in the session of its last event."""
    waiting: set[str] = field(default_factory=set)
    """Calls without a result."""
    running: bool = True
    """A response is in progress."""
    called: bool = False
    """The response has called a tool: it must be continued."""


class Delegations:
    """The delegated tasks of one connection; the calls of earlier ones are forgotten."""

    def __init__(self, model: str) -> None:
        """`model`: the one that does them, for usage reports."""
        self._model = model
        self._tasks: dict[str, _Task] = {}
        self._of_call: dict[str, str] = {}
        self._now_ms = 0.0

    def connect(self, host: ProtocolHost, send: Callable[[JsonObject], None]) -> None:
        """Begin a new connection."""
        self._host, self._send = host, send
        self.unanswered = bool(self._of_call)
        """Results of calls of the last connection are still to come."""
        self._tasks.clear()
        self._of_call.clear()
        self._now_ms = 0.0

    @property
    def open(self) -> int:
        """Number of tasks in progress."""
        return len(self._tasks)

    def look(self, now_ms: float) -> int:
        """Drop tasks that have fallen silent. Return the number of tasks in progress. `now_ms`:
        position in the session."""
        self._now_ms = now_ms
        if self._tasks:
            for task_id, task in tuple(self._tasks.items()):
                if not task.waiting and now_ms - task.event_ms >= LONGEST_SILENCE_MS:
                    self._host.ignored("warning", "a delegated task has fallen silent")
                    self._drop(task_id)
        return len(self._tasks)

    def created(self, message: JsonObject) -> None:
        task_id = text_of(object_of(message.get("delegation")), "id")
        if task_id:
            self._task(task_id)
        else:
            self._host.ignored("malformed", "session.delegation.created")

    def event(self, message: JsonObject) -> None:
        """Take an event of the model that does a task."""
        task_id, event = text_of(message, "delegation_id"), object_of(message.get("event"))
        if task_id in self._tasks:
            self._tasks[task_id].event_ms = self._now_ms
        match text_of(event, "type"):
            case "response.created":
                self._task(task_id).running = True
            case "response.output_item.done":
                self._item(task_id, object_of(event.get("item")))
            case "response.completed":
                self._used(event)
                self._ended(task_id)
            case "response.failed" | "response.incomplete" as kind:
                self._used(event)
                self._host.ignored("warning", f"a delegated task: {kind}")
                self._drop(task_id)

    def answered(self, call_id: str, output: str) -> bool:
        """Send a result. False: no task of this connection waits for it."""
        task_id = self._of_call.pop(call_id, None)
        if task_id is None:
            return False
        self._send(
            {
                "type": "response.item.create",
                "item": messages.function_output_item(call_id, output),
            }
        )
        task = self._tasks[task_id]
        task.event_ms = self._now_ms
        task.waiting.discard(call_id)
        self._continue(task)
        return True

    def refused(self, words: str) -> None:
        """Take an error of the service: one of a handoff ends the tasks in progress."""
        if words.startswith(_HANDOFF):
            for task_id in [task_id for task_id, task in self._tasks.items() if task.running]:
                self._drop(task_id)

    # Inside.

    def _task(self, task_id: str) -> _Task:
        return self._tasks.setdefault(task_id, _Task(self._now_ms))

    def _item(self, task_id: str, item: JsonObject) -> None:
        if text_of(item, "type") != "function_call":
            return
        call_id, name = text_of(item, "call_id"), text_of(item, "name")
        written = text_of(item, "arguments") or "{}"
        arguments = messages.json_object(written) if len(written) <= _MAX_ARGUMENTS else None
        if not call_id or not name:
            self._host.ignored("malformed", "a tool call")
            return
        if call_id in self._of_call:
            self._host.ignored("duplicate", "a tool call")
            return
        task = self._task(task_id)
        task.called = True
        task.waiting.add(call_id)
        self._of_call[call_id] = task_id
        if arguments is None:
            self._host.ignored("malformed", "arguments of a tool call")
            told = {"status": "error", "message": "The arguments were not a JSON object."}
            self.answered(call_id, messages.encoded(told).decode())
        else:
            self._host.tool_asked(call_id, name, arguments)

    def _ended(self, task_id: str) -> None:
        task = self._tasks.get(task_id)
        if task is None:
            return
        task.running = False
        if task.called:
            self._continue(task)
        else:
            del self._tasks[task_id]

    def _continue(self, task: _Task) -> None:
        if task.called and not task.running and not task.waiting:
            task.running, task.called = True, False
            self._send({"type": "response.create"})

    def _drop(self, task_id: str) -> None:
        task = self._tasks.pop(task_id, None)
        for call_id in sorted(task.waiting) if task is not None else ():
            del self._of_call[call_id]
            self._host.tool_cancelled(call_id)

    def _used(self, event: JsonObject) -> None:
        usage = object_of(object_of(event.get("response")).get("usage"))
        details = {
            "input_token_details": object_of(usage.get("input_tokens_details")),
            "output_token_details": {},
        }
        amounts = messages.usage_amounts({**usage, **details})
        if amounts:
            self._host.used(self._model, amounts)

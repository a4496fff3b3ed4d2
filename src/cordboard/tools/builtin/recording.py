"""`pause_recording` and `resume_recording`: the caller decides which parts are recorded."""

from __future__ import annotations

from cordboard.tools.tool import Effects, JsonObject, Limits, Status, ToolResult, ToolRun, ToolSpec

NOT_RECORDED = "This call is not being recorded."


def _spec(name: str, description: str) -> ToolSpec:
    return ToolSpec(
        name=name,
        kind="builtin",
        description=description,
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
        origin=f"builtin:{name}",
        limits=Limits(timeout_ms=5_000),
        effects=Effects.IDEMPOTENT,
    )


class PauseRecording:
    """Records silence from now on."""

    spec = _spec(
        "pause_recording",
        "Pause the recording of this call, when the caller asks for it or is about to say something"
        " confidential. Resume it with resume_recording.",
    )

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        if not run.line.pause_recording():
            return ToolResult(Status.ERROR, NOT_RECORDED)
        return ToolResult(message="The recording is paused.", data={"recording": "paused"})


class ResumeRecording:
    """Records sound again."""

    spec = _spec("resume_recording", "Resume the recording of this call after a pause.")

    async def run(self, arguments: JsonObject, run: ToolRun) -> ToolResult:
        if not run.line.resume_recording():
            return ToolResult(Status.ERROR, NOT_RECORDED)
        return ToolResult(message="The recording goes on.", data={"recording": "on"})

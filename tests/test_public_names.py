"""The public names: `import cordboard` is quick, and what it offers is pinned."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import cordboard

ROOT = Path(__file__).parents[1]
PUBLIC = """
    ALAW_8K Address Agent AgentAudio AgentAudioDone AgentBroke AgentEnded AgentError AgentEvent
    AgentFailed
    AgentSaid AgentSession AgentText AgentTrouble AgentWords Asterisk AudioFormat BrainError
    CallRecogniser CallerPartial CallerPauses CallerSaid CallerStarted CallerStopped CallerText
    CallerWaits Config ConfigError CordboardError CutItem DEFAULT_LIMITS Effects Engine Finished
    Interrupted
    JSON_SCHEMA Kept LanguageModel LanguageModelBrain LineMedia ListenedCall Listening
    LoadedConfig Lost MediaArrival MediaError MediaPath Message ModelBrain ModelEvent ModelRequest
    OverlapBegan OverlapDismissed PLAIN Pacer PaidVoice PartSection Parts PayloadLimits Probe
    ProtocolHost Provider RealtimeProvider Recogniser RecogniserError Resumed SLIN_16K SLIN_8K
    Said SchemaProfile Section Service ServiceProtocol Speech SpeechHints SpeechState Status
    TextPiece Tool
    ToolAnswered ToolAsk ToolAsked ToolCancelled ToolError ToolReply ToolResult ToolRun
    ToolSection ToolSpec ToolType ToolWish Transcript Transport TurnVerdict ULAW_8K Usage Used
    Voice VoiceError __version__ load
"""
LIGHT = """
import sys
import cordboard
heavy = {"pydantic", "numpy", "httpx2", "starlette", "orjson", "asyncio"} & set(sys.modules)
assert not heavy, heavy
from cordboard.config.plugins import installed
assert len(installed().descriptors) >= 18
heavy = {"httpx2", "websockets", "onnxruntime", "ctranslate2", "starlette", "mcp", "numpy",
         "tokenizers", "hibari_tts", "xllamacpp", "piper"} & set(sys.modules)
assert not heavy, heavy
"""


def test_the_public_names_are_these_and_all_are_there() -> None:
    assert sorted(cordboard.__all__) == sorted(PUBLIC.split())
    assert dir(cordboard) == sorted(cordboard.__all__)
    for name in cordboard.__all__:
        assert getattr(cordboard, name) is not None


def test_type_checkers_see_the_same_names_in_the_same_places() -> None:
    tree = ast.parse((ROOT / "src" / "cordboard" / "__init__.py").read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == cordboard._HOME


def test_neither_the_package_nor_the_descriptors_import_what_is_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_the_page_of_the_public_names_tells_of_each() -> None:
    page = (ROOT / "docs" / "python-api.md").read_text()
    assert [name for name in PUBLIC.split() if f"`{name}`" not in page] == []

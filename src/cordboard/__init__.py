"""Cordboard: voice agents that answer telephone calls.

It plugs each phone call into one YAML context (who the agent is, which provider speaks, which
tools it may use) and keeps the conversation fast, honest and safe until the caller hangs up.

The names here are the public API: docs/python-api.md describes them, and says what may change. A
name is imported when it is first used, so that `import cordboard` stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cordboard.version import __version__

if TYPE_CHECKING:
    from cordboard.agent_api.agent import Agent as Agent
    from cordboard.agent_api.agent import AgentAudio as AgentAudio
    from cordboard.agent_api.agent import AgentAudioDone as AgentAudioDone
    from cordboard.agent_api.agent import AgentBroke as AgentBroke
    from cordboard.agent_api.agent import AgentEnded as AgentEnded
    from cordboard.agent_api.agent import AgentEvent as AgentEvent
    from cordboard.agent_api.agent import AgentFailed as AgentFailed
    from cordboard.agent_api.agent import AgentSession as AgentSession
    from cordboard.agent_api.agent import AgentText as AgentText
    from cordboard.agent_api.agent import AgentTrouble as AgentTrouble
    from cordboard.agent_api.agent import AgentWords as AgentWords
    from cordboard.agent_api.agent import CallerPartial as CallerPartial
    from cordboard.agent_api.agent import CallerPauses as CallerPauses
    from cordboard.agent_api.agent import CallerStarted as CallerStarted
    from cordboard.agent_api.agent import CallerStopped as CallerStopped
    from cordboard.agent_api.agent import CallerText as CallerText
    from cordboard.agent_api.agent import CallerWaits as CallerWaits
    from cordboard.agent_api.agent import Interrupted as Interrupted
    from cordboard.agent_api.agent import OverlapBegan as OverlapBegan
    from cordboard.agent_api.agent import OverlapDismissed as OverlapDismissed
    from cordboard.agent_api.agent import Said as Said
    from cordboard.agent_api.agent import ToolAsked as ToolAsked
    from cordboard.agent_api.agent import ToolCancelled as ToolCancelled
    from cordboard.agent_api.agent import Usage as Usage
    from cordboard.agent_api.agent import Used as Used
    from cordboard.agent_api.language_model import AgentSaid as AgentSaid
    from cordboard.agent_api.language_model import CallerSaid as CallerSaid
    from cordboard.agent_api.language_model import Finished as Finished
    from cordboard.agent_api.language_model import Kept as Kept
    from cordboard.agent_api.language_model import LanguageModel as LanguageModel
    from cordboard.agent_api.language_model import Message as Message
    from cordboard.agent_api.language_model import ModelEvent as ModelEvent
    from cordboard.agent_api.language_model import ModelRequest as ModelRequest
    from cordboard.agent_api.language_model import TextPiece as TextPiece
    from cordboard.agent_api.language_model import ToolAnswered as ToolAnswered
    from cordboard.agent_api.language_model import ToolWish as ToolWish
    from cordboard.agent_api.probe import Probe as Probe
    from cordboard.agent_api.provider import Parts as Parts
    from cordboard.agent_api.provider import Provider as Provider
    from cordboard.agent_api.service_protocol import CutItem as CutItem
    from cordboard.agent_api.service_protocol import Lost as Lost
    from cordboard.agent_api.service_protocol import ProtocolHost as ProtocolHost
    from cordboard.agent_api.service_protocol import Resumed as Resumed
    from cordboard.agent_api.service_protocol import ServiceProtocol as ServiceProtocol
    from cordboard.agent_api.speech import Speech as Speech
    from cordboard.agent_api.speech import SpeechState as SpeechState
    from cordboard.agent_api.stt import CallRecogniser as CallRecogniser
    from cordboard.agent_api.stt import ListenedCall as ListenedCall
    from cordboard.agent_api.stt import Listening as Listening
    from cordboard.agent_api.stt import Recogniser as Recogniser
    from cordboard.agent_api.stt import SpeechHints as SpeechHints
    from cordboard.agent_api.stt import Transcript as Transcript
    from cordboard.agent_api.stt import TurnVerdict as TurnVerdict
    from cordboard.agent_api.tts import PaidVoice as PaidVoice
    from cordboard.agent_api.tts import Voice as Voice
    from cordboard.audio.format import ALAW_8K as ALAW_8K
    from cordboard.audio.format import SLIN_8K as SLIN_8K
    from cordboard.audio.format import SLIN_16K as SLIN_16K
    from cordboard.audio.format import ULAW_8K as ULAW_8K
    from cordboard.audio.format import AudioFormat as AudioFormat
    from cordboard.audio.pacer import Pacer as Pacer
    from cordboard.config.load import LoadedConfig as LoadedConfig
    from cordboard.config.load import load as load
    from cordboard.config.schema import Asterisk as Asterisk
    from cordboard.config.schema import Config as Config
    from cordboard.config.section import Section as Section
    from cordboard.config.sections.language_model import LanguageModelBrain as LanguageModelBrain
    from cordboard.config.sections.language_model import ModelBrain as ModelBrain
    from cordboard.config.sections.parts import PartSection as PartSection
    from cordboard.config.sections.realtime import RealtimeProvider as RealtimeProvider
    from cordboard.config.sections.service import Service as Service
    from cordboard.config.sections.tool import ToolSection as ToolSection
    from cordboard.errors import AgentError as AgentError
    from cordboard.errors import BrainError as BrainError
    from cordboard.errors import ConfigError as ConfigError
    from cordboard.errors import CordboardError as CordboardError
    from cordboard.errors import MediaError as MediaError
    from cordboard.errors import RecogniserError as RecogniserError
    from cordboard.errors import ToolError as ToolError
    from cordboard.errors import VoiceError as VoiceError
    from cordboard.net.service_websocket import Address as Address
    from cordboard.runtime.engine import Engine as Engine
    from cordboard.telephony.asterisk.media_path import LineMedia as LineMedia
    from cordboard.telephony.asterisk.media_path import MediaArrival as MediaArrival
    from cordboard.telephony.asterisk.media_path import MediaPath as MediaPath
    from cordboard.telephony.asterisk.transport import Transport as Transport
    from cordboard.tools.payload import DEFAULT_LIMITS as DEFAULT_LIMITS
    from cordboard.tools.payload import PayloadLimits as PayloadLimits
    from cordboard.tools.plugin import ToolType as ToolType
    from cordboard.tools.schema_profiles import JSON_SCHEMA as JSON_SCHEMA
    from cordboard.tools.schema_profiles import PLAIN as PLAIN
    from cordboard.tools.schema_profiles import SchemaProfile as SchemaProfile
    from cordboard.tools.tool import Effects as Effects
    from cordboard.tools.tool import Status as Status
    from cordboard.tools.tool import Tool as Tool
    from cordboard.tools.tool import ToolAsk as ToolAsk
    from cordboard.tools.tool import ToolReply as ToolReply
    from cordboard.tools.tool import ToolResult as ToolResult
    from cordboard.tools.tool import ToolRun as ToolRun
    from cordboard.tools.tool import ToolSpec as ToolSpec

_HOMES = {
    "cordboard.agent_api.agent": (
        "Agent AgentAudio AgentAudioDone AgentBroke AgentEnded AgentEvent AgentFailed "
        "AgentSession AgentText AgentTrouble AgentWords CallerPartial CallerPauses CallerStarted "
        "CallerStopped CallerText CallerWaits Interrupted OverlapBegan OverlapDismissed Said "
        "ToolAsked ToolCancelled Usage Used"
    ),
    "cordboard.agent_api.language_model": (
        "AgentSaid CallerSaid Finished Kept LanguageModel Message ModelEvent ModelRequest "
        "TextPiece ToolAnswered ToolWish"
    ),
    "cordboard.agent_api.probe": "Probe",
    "cordboard.agent_api.provider": "Parts Provider",
    "cordboard.agent_api.service_protocol": "CutItem Lost ProtocolHost Resumed ServiceProtocol",
    "cordboard.agent_api.speech": "Speech SpeechState",
    "cordboard.agent_api.stt": (
        "CallRecogniser ListenedCall Listening Recogniser SpeechHints Transcript TurnVerdict"
    ),
    "cordboard.agent_api.tts": "PaidVoice Voice",
    "cordboard.audio.format": "ALAW_8K AudioFormat SLIN_16K SLIN_8K ULAW_8K",
    "cordboard.audio.pacer": "Pacer",
    "cordboard.config.load": "LoadedConfig load",
    "cordboard.config.sections.language_model": "LanguageModelBrain ModelBrain",
    "cordboard.config.sections.parts": "PartSection",
    "cordboard.config.sections.realtime": "RealtimeProvider",
    "cordboard.config.sections.service": "Service",
    "cordboard.config.schema": "Asterisk Config",
    "cordboard.config.section": "Section",
    "cordboard.config.sections.tool": "ToolSection",
    "cordboard.errors": (
        "AgentError BrainError ConfigError CordboardError MediaError RecogniserError "
        "ToolError VoiceError"
    ),
    "cordboard.net.service_websocket": "Address",
    "cordboard.runtime.engine": "Engine",
    "cordboard.telephony.asterisk.media_path": "LineMedia MediaArrival MediaPath",
    "cordboard.telephony.asterisk.transport": "Transport",
    "cordboard.tools.payload": "DEFAULT_LIMITS PayloadLimits",
    "cordboard.tools.plugin": "ToolType",
    "cordboard.tools.schema_profiles": "JSON_SCHEMA PLAIN SchemaProfile",
    "cordboard.tools.tool": ("Effects Status Tool ToolAsk ToolReply ToolResult ToolRun ToolSpec"),
}
"""Module → the public names in it."""
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cordboard' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

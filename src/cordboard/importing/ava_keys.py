"""Tables: keys, names and tools of AVA, and what they are here."""

from __future__ import annotations

from collections.abc import Mapping


def _table(text: str) -> dict[str, str]:
    """Read `theirs>ours`, and `both`, separated by blanks."""
    pairs = (word.partition(">") for word in text.split())
    return {theirs: ours or theirs for theirs, _, ours in pairs}


VARIABLES = _table(
    "caller_name caller_number caller_id>caller_number called_number call_id context_name "
    "provider>provider_name current_date today>current_date current_weekday current_time "
    "current_datetime_iso"
)
"""Placeholders of prompts, greetings and HTTP tools."""

AFTER_THE_CALL = _table(
    "call_duration>duration_ms call_outcome>outcome call_start_time>started_at "
    "call_end_time>ended_at transcript_json>transcript summary>transcript_text "
    "summary_json>transcript tool_calls_json>tools"
)
"""Further placeholders of webhooks after a call."""

TOOLS: Mapping[str, str] = {
    **dict.fromkeys(("hangup_call", "hangup", "end_call"), "hangup_call"),
    **dict.fromkeys(
        "blind_transfer transfer transfer_call transfer_to_queue attended_transfer "
        "live_agent_transfer live_agent transfer_to_live_agent leave_voicemail".split(),
        "transfer",
    ),
}
"""Built-in tools and their aliases."""

LOST_TOOLS: Mapping[str, str] = {
    "cancel_transfer": "a transfer cannot be taken back once it rings; a failed one returns by "
    "itself",
    "check_extension_status": "nearest: a tool of `kind: http` on a device-state service of yours",
    "send_email_summary": "nearest: a `post_call` step with a tool of `kind: http`",
    "request_transcript": "nearest: a `post_call` step with a tool of `kind: http`",
    "google_calendar": "nearest: an MCP server for the calendar",
    "microsoft_calendar": "nearest: an MCP server for the calendar",
    "set_call_disposition": "nearest: a tool of `kind: http` on the dialler",
}
"""Built-in tools without a counterpart."""

NOT_TOOLS: Mapping[str, str] = {
    "ai_identity": "the caller ID of a transfer is set in the dialplan",
    "default_action_timeout": "nearest: `timeout_ms` of each tool",
    "hangup_call": "the agent words its farewell; the line is hung up when that has been heard",
}
"""Entries under `tools` that are settings."""

SECTIONS: Mapping[str, str] = {
    "config_version": "the version of AVA's file",
    "downstream_mode": "audio is always streamed",
    "streaming": "the engine paces the audio by itself, without these buffers",
    "vad": "nearest: `contexts.<name>.turn_taking`",
    "farewell_hangup_delay_sec": "the line is hung up when the farewell has been heard",
    "provider_failure_prompt": "the engine apologises in its own voice",
    "logging": "nearest: `cordboard run --log-level`",
}
"""Sections of the root without a counterpart."""

CONTEXT_KEYS: Mapping[str, str] = {
    "background_music": "there is no music under the conversation",
    "connection_audio": "the greeting begins at once; nearest: Ringing() in the dialplan",
    "tool_configs": "all contexts share the destinations of `tools.transfer`",
    **dict.fromkeys(
        ("email_recipient", "email_from", "email_enabled", "email_template"),
        "nearest: a `post_call` step with a tool of `kind: http`",
    ),
}
"""Keys of a context without a counterpart."""

FORMATS = frozenset(
    "input_encoding input_sample_rate_hz provider_input_encoding provider_input_sample_rate_hz "
    "output_encoding output_sample_rate_hz target_encoding target_sample_rate_hz "
    "response_modalities continuous_input capabilities name enabled type api_key api_version "
    "input_gain_target_rms input_gain_max_db egress_pacer_enabled egress_pacer_warmup_ms "
    "enable_input_transcription enable_output_transcription organization project_id".split()
)
"""Keys of providers that need no counterpart: formats are negotiated, keys are in the environment,
both sides are always transcribed."""

FULL_AGENTS = _table(
    "openai_realtime google_live>gemini_live deepgram>deepgram_agent elevenlabs_agent"
)
"""Providers that hear and speak."""

_DETECTION = "realtime_input_config.automatic_activity_detection"
PROVIDER_KEYS: Mapping[str, Mapping[str, str]] = {
    "openai_realtime": _table(
        "model voice max_response_output_tokens>max_output_tokens turn_detection.type "
        "turn_detection.threshold turn_detection.prefix_padding_ms "
        "turn_detection.silence_duration_ms"
    ),
    "gemini_live": {
        **_table(
            "llm_model>model tts_voice_name>voice_name llm_temperature>temperature llm_top_p>top_p "
            "llm_top_k>top_k llm_max_output_tokens>max_output_tokens"
        ),
        **{
            f"vad_{key}": f"{_DETECTION}.{key}"
            for key in (
                "start_of_speech_sensitivity end_of_speech_sensitivity prefix_padding_ms "
                "silence_duration_ms"
            ).split()
        },
    },
    "deepgram_agent": _table(
        "model>listen.provider.model tts_model>speak.provider.model "
        "llm_model>think.provider.model llm_temperature>think.provider.temperature"
    ),
    "elevenlabs_agent": _table("agent_id"),
}
"""Type of ours → key of theirs → key of ours, with dots between sections."""

VOICE_KEYS = _table(
    "openai_realtime>voice gemini_live>voice_name deepgram_agent>speak.provider.model"
)
"""Type of ours → key for the `voice` of a context."""

PART_KEYS: Mapping[str, Mapping[str, str]] = {
    "stt deepgram": _table("model language"),
    "stt deepgram_flux": _table("model eot_threshold eager_eot_threshold eot_timeout_ms"),
    "stt openai": _table("stt_model>model model language"),
    "brain openai_chat": _table("chat_model>model model temperature max_tokens extra_body>extra"),
    "brain gemini": _table("llm_model>model model temperature max_tokens>max_output_tokens"),
    "brain gguf": _table("llm_model>model temperature max_tokens"),
    "tts deepgram": _table("tts_model>model model voice>model"),
    "tts openai": _table("tts_model>model voice"),
    "tts elevenlabs": _table(
        "voice_id model_id stability similarity_boost style use_speaker_boost"
    ),
    "tts piper": _table("tts_voice>model"),
}
"""Part and type of ours → key of theirs → key of ours. Later keys of theirs win."""

PARTS: Mapping[str, Mapping[str, str]] = {
    "stt": _table("deepgram deepgram_flux openai groq>openai local>whisper"),
    "brain": _table(
        "local>gguf google>gemini openai>openai_chat groq>openai_chat telnyx>openai_chat "
        "minimax>openai_chat ollama>openai_chat"
    ),
    "tts": _table("deepgram openai groq>openai elevenlabs local>hibari"),
}
"""Part of ours → type of theirs → type of ours."""

STAND_INS = _table("stt>whisper brain>openai_chat tts>hibari")
"""Types for components that have no counterpart."""

COMPONENTS = _table("stt llm>brain tts")
"""Part of AVA's pipeline → part of ours."""

KEY_VARIABLES = _table("groq>GROQ_API_KEY telnyx>TELNYX_API_KEY minimax>MINIMAX_API_KEY")
"""Services whose key our type does not look up by itself."""

BASE_URLS: Mapping[str, str] = {
    "groq": "https://api.groq.com/openai/v1",
    "telnyx": "https://api.telnyx.com/v2/ai",
    "minimax": "https://api.minimax.io/v1",
    "ollama": "http://localhost:11434/v1",
}

MEDIA = _table("audiosocket externalmedia>rtp websocket")
"""`audio_transport` → `asterisk.media`."""

PHASES = _table(
    "generic_http_lookup>pre_call in_call_http_lookup>in_call generic_webhook>post_call"
)
"""`kind` of an HTTP tool → phase."""

MCP_SERVER_KEYS = "enabled transport command cwd env".split()
MCP_DEFAULT_KEYS = "timeout_ms slow_response_threshold_ms slow_response_message".split()
MCP_RESTART_KEYS = "enabled max_restarts backoff_ms".split()
MCP_TOOL_KEYS = "name expose_as description speech_field speech_template".split() + MCP_DEFAULT_KEYS

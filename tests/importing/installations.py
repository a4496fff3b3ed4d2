"""Small installations in the shape of AVA's: v6 with contexts in YAML, v7.5 with its database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

V6 = """\
config_version: 6
default_provider: bakery_voice
active_pipeline: counter
audio_transport: externalmedia
asterisk: {app_name: asterisk-ai-voice-agent}
external_media: {rtp_host: 0.0.0.0, port_range: "18080:18099", codec: ulaw}
barge_in: {enabled: yes, min_ms: 250}
streaming: {jitter_buffer_ms: 950}
flux_capacitor: {gigawatts: 1.21}
no_input: {enabled: true, initial_timeout_sec: 20, max_check_ins: 2,
           check_in_message: "Hello?", final_message: "Bye then."}
contexts:
  Bread Line:
    greeting: "Good morning {caller_name}, the bakery."
    prompt: |
      You sell bread.
      - Never promise {campaign_id} anything.
      Show it as {"kind": "rye"}.
    profile: telephony_ulaw_8k
    pipeline: counter
    background_music: waltz
    tools: [transfer, hangup_call, request_transcript, bake_time]
    pre_call_tools: [find_customer]
    post_call_tools: [tell_baker]
  night:
    greeting: "We are closed, {customer}."
    provider: bakery_voice
    voice: cedar
    tools: [hangup_call]
    pre_call_tools: [find_customer]
profiles:
  default: telephony_ulaw_8k
  telephony_ulaw_8k: {chunk_ms: auto}
providers:
  bakery_voice:
    type: openai_realtime
    model: gpt-realtime
    voice: alloy
    api_key: ${OPENAI_API_KEY}
    temperature: 0.6
    turn_detection: {type: server_vad, silence_duration_ms: 700, create_response: true}
  local_stt: {type: local, ws_url: "ws://127.0.0.1:8765"}
  local_tts: {type: local}
  idle_stt: {type: azure}
  oven_llm: {type: groq, chat_model: bread-1}
  deepgram: {type: full, enabled: false, model: nova-3}
pipelines:
  counter:
    stt: local_stt
    llm: oven_llm
    tts: local_tts
    options:
      llm:
        temperature: ${HEAT:=0.5}
        max_tokens: 100
        extra: 1
      stt: {chunk_ms: 160}
tools:
  enabled: true
  ai_identity: {name: AI, number: "1"}
  transfer:
    queue_context: ext-queues
    destinations:
      Shop Floor: {type: queue, target: "800", description: The shop}
      nowhere: null
  hangup_call: {farewell_message: Bye}
  find_customer:
    kind: generic_http_lookup
    phase: pre_call
    timeout_ms: 1500
    url: "http://crm.bakery.example/find"
    method: POST
    headers: {Authorization: "Bearer ${CRM_KEY}", Content-Type: application/json}
    body_template: '{"number": "{caller_number}"}'
    output_variables: {customer: "hits[0].name", all: "hits[*].name"}
  tell_baker:
    kind: generic_webhook
    url: "https://hooks.bakery.example/calls"
    payload_template: |
      {"who": "{caller_number}", "took": {call_duration}, "words": {transcript_json}}
in_call_tools:
  bake_time:
    kind: in_call_http_lookup
    description: "When a bread is ready."
    url: "https://oven.bakery.example/{bread}"
    method: GET
    parameters: [{name: bread, type: string, description: Which, required: true}]
    error_message: "The oven does not answer."
mcp:
  enabled: true
  servers:
    Recipe-Book:
      transport: stdio
      command: [python3, -m, src.mcp_servers.recipes]
      restart: {enabled: true, max_restarts: 3, backoff_ms: 500}
      defaults: {timeout_ms: 4000, slow_response_message: "One moment."}
      tools: [{name: find, expose_as: mcp_recipes_find, speech_field: text}]
"""

V7 = """\
config_version: 6
default_provider: shop
contexts: {old: {greeting: Old}}
providers: {local_stt: {type: local}, local_tts: {type: local},
            local_llm: {type: local, llm_model: models/shop.gguf}}
pipelines: {shop: {stt: local_stt, llm: local_llm, tts: local_tts}}
tools:
  transfer: {destinations: {desk: {type: extension, target: "6001", description: The desk}}}
mcp:
  enabled: true
  servers:
    aviation_atis:
      transport: stdio
      command: [python3, -m, src.mcp_servers.aviation_atis_server, --config, CONFIG]
      tools: [{name: get_atis, expose_as: mcp_aviation_atis, speech_field: atis_text}]
"""

_COLUMNS = (
    "id slug display_name extension role_label provider voice greeting prompt tools_json "
    "tool_configs_json mcp_json audio_profile extra_json is_operator_managed is_active is_default "
    "source_file created_at updated_at notes email_recipient email_from email_enabled"
).split()


def agent(slug: str, **columns: Any) -> dict[str, Any]:
    return {
        "id": slug, "slug": slug, "display_name": slug.title(), "provider": "shop",
        "prompt": "You help.", "is_active": 1, "is_default": 0, **columns,
    }  # fmt: skip


def folder(root: Path, text: str, agents: list[dict[str, Any]] | None = None) -> Path:
    """Write an installation, with a database if there are agents."""
    (root / "config").mkdir(parents=True)
    (root / "config" / "ai-agent.yaml").write_text(text)
    (root / ".env").write_text("OPENAI_API_KEY=sk-very-secret\nGROQ_API_KEY='gsk-secret'\n#X=1\n")
    if agents is not None:
        place = root / "data" / "operator"
        place.mkdir(parents=True)
        database(place / "agents.db", agents)
    return root


def database(path: Path, agents: list[Mapping[str, Any]] | list[dict[str, Any]]) -> None:
    """AVA's own table, in its journal mode."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"CREATE TABLE agents ({', '.join(_COLUMNS)})")
        for row in agents:
            names = ", ".join(row)
            marks = ", ".join("?" * len(row))
            connection.execute(f"INSERT INTO agents ({names}) VALUES ({marks})", [*row.values()])
        connection.commit()


def as_json(value: object) -> str:
    return json.dumps(value)

"""Applies the operator's settings for a tool (`config.sections.tool`) to its spec.

Pure; called when a spec is made, for every kind of tool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cordboard.config.schema import Config
from cordboard.config.sections.tool import ToolRules
from cordboard.tools.tool import Effects, ErrorWords, Filler, Limits, Speech, ToolSpec

DEFAULT_FILLER = ("One moment, please.",)


def sentences(config: Config) -> Iterator[str]:
    """The fillers of all slow tools."""
    listed: list[ToolRules] = [*config.tools.values()]
    for server in config.mcp.servers.values():
        listed += server.tools
        if server.defaults.slow_response_threshold_ms:
            yield from server.defaults.slow_response_message
    for rules in listed:
        yield from rules.slow_response_message or ()
        if rules.slow_response_threshold_ms and not rules.slow_response_message:
            yield from DEFAULT_FILLER


def apply_rules(spec: ToolSpec, rules: ToolRules) -> ToolSpec:
    """Return the spec with the operator's settings; settings left out stay as in `spec`.

    `spec.approval` applies unless the operator sets something; effects that the operator declares
    as destructive change it to `caller`.
    """
    effects = Effects(rules.effects) if rules.effects is not None else spec.effects
    approval = spec.approval
    if rules.effects is not None:
        approval = "caller" if effects is Effects.DESTRUCTIVE else "none"
    return replace(
        spec,
        description=rules.description or spec.description,
        effects=effects,
        approval=rules.approval or approval,
        approval_question=rules.approval_question or spec.approval_question,
        duplicates=rules.duplicates or spec.duplicates,
        secret_arguments=spec.secret_arguments | frozenset(rules.secret_arguments),
        limits=_limits(spec.limits, rules),
        speech=_speech(spec.speech, rules),
        filler=_filler(spec.filler, rules),
    )


def _limits(limits: Limits, rules: ToolRules) -> Limits:
    said = {
        name: value
        for name in ("timeout_ms", "retries", "cache_ttl_ms", "cache_scope", "per_turn", "per_call")
        if (value := getattr(rules, name)) is not None
    }
    return replace(limits, **said)


def _speech(speech: Speech, rules: ToolRules) -> Speech:
    words, errors = rules.error_messages, speech.errors
    return Speech(
        rules.speech_field or speech.field,
        rules.speech_template or speech.template,
        ErrorWords(
            words.timeout or errors.timeout,
            words.error or errors.error,
            words.unavailable or errors.unavailable,
        ),
        speech.speaks_errors if rules.speak_errors is None else rules.speak_errors,
    )


def _filler(filler: Filler, rules: ToolRules) -> Filler:
    threshold, repeat = rules.slow_response_threshold_ms, rules.slow_response_repeat_ms
    return Filler(
        filler.threshold_ms if threshold is None else threshold,
        rules.slow_response_message or filler.messages or DEFAULT_FILLER,
        filler.repeat_ms if repeat is None else repeat,
    )

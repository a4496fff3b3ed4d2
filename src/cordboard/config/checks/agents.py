"""Whether the agents of a configuration can work: keys, prices for budgets, where callers go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cordboard.config.explain import suggestion
from cordboard.config.files import is_file
from cordboard.config.providers.brains import GgufBrain
from cordboard.config.providers.pipeline import PipelineProvider
from cordboard.config.providers.services import chain_of, paid_parts, providers_in_use
from cordboard.config.providers.tts import PiperTts
from cordboard.config.schema import Config, Context
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]


def check_agents(config: Config, document: Document, environ: Mapping[str, str]) -> Problems:
    """All that is wrong with them."""
    yield from _keys(config, document, environ)
    yield from _models_in_files(config, document)
    for name, context in config.contexts.items():
        yield from _on_failure(config, context, ("contexts", name), document)
        yield from _budget(config, context, ("contexts", name), document)


def _keys(config: Config, document: Document, environ: Mapping[str, str]) -> Problems:
    """Every service that calls may use has its key; else those calls will fall back, or fail."""
    for name in providers_in_use(config):
        provider = config.providers.get(name)
        if provider is None:
            continue  # told elsewhere
        for paid in paid_parts(provider):
            missing = paid.missing_key(environ)
            if missing:
                place: KeyPath = ("providers", name, *((paid.part,) if paid.part else ()))
                yield document.problem(place, f"{paid.kind} has {missing}", fatal=False)


def _models_in_files(config: Config, document: Document) -> Problems:
    """Models that are files are there."""
    for name in providers_in_use(config):
        provider = config.providers.get(name)
        if not isinstance(provider, PipelineProvider):
            continue
        for part, section in (("brain", provider.brain), ("tts", provider.tts)):
            if not isinstance(section, GgufBrain | PiperTts) or not section.model:
                continue
            if not is_file(Path(section.model)):
                message = f"there is no file {section.model}; calls that want it will fail"
                yield document.problem(("providers", name, part, "model"), message, fatal=False)


def _on_failure(config: Config, context: Context, path: KeyPath, document: Document) -> Problems:
    """The caller can be passed on to where they are to go."""
    wanted, known = context.on_failure, config.destinations
    if wanted is not None and wanted not in known:
        message = f"there is no tools.transfer destination {wanted}{suggestion(wanted, known)}"
        yield document.problem((*path, "on_failure"), message)


def _budget(config: Config, context: Context, path: KeyPath, document: Document) -> Problems:
    """What is to be limited can be counted."""
    if context.budget.max_cost_per_call is None:
        return
    told: set[str] = set()
    for name in chain_of(config, context):
        provider = config.providers.get(name)
        for paid in paid_parts(provider) if provider is not None else ():
            for model in paid.models or ("",):
                wanted = f"{paid.kind}/{model}" if model else paid.kind
                if wanted in told or config.prices.find(paid.kind, model) is not None:
                    continue
                told.add(wanted)
                message = f"there is no price for {wanted} in `prices`: its cost is not counted"
                place = (*path, "budget", "max_cost_per_call")
                yield document.problem(place, message, fatal=False)

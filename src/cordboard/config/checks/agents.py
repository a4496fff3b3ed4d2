"""Checks of the agents: keys, prices for budgets, transfer destinations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cordboard.config.chosen import BrokenPart, BrokenTool
from cordboard.config.explain import suggestion
from cordboard.config.files import is_file
from cordboard.config.providers import paid_parts, parts_of
from cordboard.config.schema import Config, Context, chain_of, providers_in_use
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]


def check_agents(config: Config, document: Document, environ: Mapping[str, str]) -> Problems:
    """Yield all problems of the agents."""
    yield from _broken_plugins(config, document)
    yield from _keys(config, document, environ)
    yield from _ending_models(config, document)
    yield from _models_in_files(config, document)
    for name, context in config.contexts.items():
        yield from _on_failure(config, context, ("contexts", name), document)
        yield from _key_transfers(config, context, ("contexts", name), document)
        yield from _budget(config, context, ("contexts", name), document)


def _broken_plugins(config: Config, document: Document) -> Problems:
    """Yield the sections whose plug-ins cannot be used."""
    for name, provider in config.providers.items():
        for part in parts_of(provider):
            if isinstance(part.section, BrokenPart):
                place: KeyPath = ("providers", name, *((part.key,) if part.key else ()))
                yield document.problem(place, part.section.problem, fatal=False)
    for name, tool in config.tools.items():
        if isinstance(tool, BrokenTool):
            yield document.problem(("tools", name), tool.problem, fatal=False)


def _keys(config: Config, document: Document, environ: Mapping[str, str]) -> Problems:
    """Every service that calls may use needs its key; else those calls fall back, or fail."""
    for name in providers_in_use(config):
        provider = config.providers.get(name)
        if provider is None:
            continue  # reported elsewhere
        for paid in paid_parts(provider):
            missing = paid.section.missing_key(environ)
            if missing:
                place: KeyPath = ("providers", name, *((paid.key,) if paid.key else ()))
                yield document.problem(place, f"{paid.section.type} has {missing}", fatal=False)


def _ending_models(config: Config, document: Document) -> Problems:
    """Models whose vendors have announced their end should be replaced in time."""
    for name in providers_in_use(config):
        provider = config.providers.get(name)
        for paid in paid_parts(provider) if provider is not None else ():
            place: KeyPath = ("providers", name, *((paid.key,) if paid.key else ()))
            for model, day in paid.section.ending_models.items():
                message = f"the model {model} ends on {day}, says its vendor; choose another"
                yield document.problem(place, message, fatal=False)


def _models_in_files(config: Config, document: Document) -> Problems:
    """Model files must exist."""
    for name in providers_in_use(config):
        provider = config.providers.get(name)
        for part in parts_of(provider) if provider is not None else ():
            file = part.section.model_file
            if file and not is_file(Path(file)):
                message = f"there is no file {file}; calls that use it will fail"
                place = ("providers", name, *((part.key,) if part.key else ()), "model")
                yield document.problem(place, message, fatal=False)


def _on_failure(config: Config, context: Context, path: KeyPath, document: Document) -> Problems:
    """The transfer destination for callers without an agent must exist."""
    wanted, known = context.on_failure, config.destinations
    if wanted is not None and wanted not in known:
        message = f"there is no tools.transfer destination {wanted}{suggestion(wanted, known)}"
        yield document.problem((*path, "on_failure"), message)


def _key_transfers(config: Config, context: Context, path: KeyPath, document: Document) -> Problems:
    """The transfer destinations of keys must exist."""
    known = config.destinations
    for key, option in context.keys.options.items() if context.keys is not None else ():
        wanted = option.transfer
        if wanted is not None and wanted not in known:
            message = f"there is no tools.transfer destination {wanted}{suggestion(wanted, known)}"
            yield document.problem((*path, "keys", "options", key, "transfer"), message)


def _budget(config: Config, context: Context, path: KeyPath, document: Document) -> Problems:
    """Every service under a budget needs a price."""
    if context.budget.max_cost_per_call is None:
        return
    told: set[str] = set()
    for name in chain_of(config, context):
        provider = config.providers.get(name)
        for paid in paid_parts(provider) if provider is not None else ():
            kind = paid.section.type
            for model in paid.section.paid_models or ("",):
                wanted = f"{kind}/{model}" if model else kind
                if wanted in told or config.prices.find(kind, model) is not None:
                    continue
                told.add(wanted)
                message = f"there is no price for {wanted} in `prices`: its cost is not counted"
                place = (*path, "budget", "max_cost_per_call")
                yield document.problem(place, message, fatal=False)

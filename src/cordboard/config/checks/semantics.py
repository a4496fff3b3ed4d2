"""Checks across sections: names must refer to something, tools must have a source.

Every check yields problems. Fatal ones are contradictions inside the file, which no start could
heal. A problem is not fatal if the engine can run without the part (an MCP server that is switched
off or whose program is missing): it runs, offers less, and `/ready` reports it.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cordboard.config.call_phases import saved_names
from cordboard.config.call_variables import CALL_VARIABLES
from cordboard.config.checks.agents import check_agents
from cordboard.config.checks.alarms import check_alarms
from cordboard.config.checks.firewall import check_firewall
from cordboard.config.checks.http_tools import check_http_tools
from cordboard.config.checks.phases import check_phases
from cordboard.config.checks.tools import (
    ToolNames,
    check_list,
    check_tools,
    exposed_by_origin,
    exposed_reference,
    may_use,
    running_servers,
)
from cordboard.config.explain import inner_path, suggestion
from cordboard.config.files import is_folder
from cordboard.config.mcp import McpServer
from cordboard.config.remote_url import url_problem
from cordboard.config.schema import MEDIA_CODECS, Config, Context
from cordboard.config.templates import prompt_names, prompt_problems
from cordboard.config.yaml_document import Document, KeyPath, dotted
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]


def with_defaults(config: Config) -> Config:
    """Fill in the names that follow from others, so that readers need not know the rules."""
    default_context = config.default_context or next(iter(config.contexts))
    default_provider = config.default_provider
    stated = "default_provider" in config.model_fields_set
    if not stated and default_provider not in config.providers and config.providers:
        default_provider = next(iter(config.providers))
    names = exposed_by_origin(config)
    contexts = {
        name: context.model_copy(
            update={"tools": tuple(exposed_reference(tool, names) for tool in context.tools)}
        )
        for name, context in config.contexts.items()
    }
    return config.model_copy(
        update={
            "default_context": default_context,
            "default_provider": default_provider,
            "contexts": contexts,
        }
    )


def check(config: Config, document: Document, environ: Mapping[str, str]) -> Problems:
    """Yield all problems, lazily, so that a reader of thousands may stop. `config` has its defaults
    filled in."""
    yield from _names(config, document)
    yield from _ports(config, document)
    yield from _codec(config, document)
    yield from _extras(config, document)
    yield from check_agents(config, document, environ)
    names = ToolNames(config)
    yield from check_tools(names, document)
    yield from check_http_tools(config, document)
    yield from check_alarms(names, document)
    yield from check_firewall(names, document)
    for name, context in config.contexts.items():
        yield from _texts(context, ("contexts", name), document)
        yield from check_list(names, context, ("contexts", name), document)
        yield from _rules(names, context, ("contexts", name), document)
        yield from check_phases(names, context, ("contexts", name), document)
    yield from _remote_servers(config, document)
    yield from _cluster_servers(config, document)
    yield from _programs(config, document, environ)


def _names(config: Config, document: Document) -> Problems:
    """Every name of a context or a provider must exist."""
    contexts: list[tuple[KeyPath, str | None]] = [
        (("default_context",), config.default_context),
        (("audiosocket", "context"), config.audiosocket.context),
        *((("routes", number), name) for number, name in config.routes.items()),
    ]
    for path, name in contexts:
        if name is not None and name not in config.contexts and document.has(path):
            yield _nothing_called(document, path, "context", name, config.contexts)
    providers: list[tuple[KeyPath, str | None]] = [
        (("default_provider",), config.default_provider),
        *((("contexts", name, "provider"), c.provider) for name, c in config.contexts.items()),
        *(
            (("contexts", name, "fallback", place), fallback)
            for name, c in config.contexts.items()
            for place, fallback in enumerate(c.fallback)
        ),
    ]
    for path, name in providers:
        if name is not None and name not in config.providers:
            yield _nothing_called(document, path, "provider", name, config.providers)


def _nothing_called(
    document: Document, path: KeyPath, kind: str, name: str, known: Iterable[str]
) -> ConfigProblem:
    return document.problem(path, f"there is no {kind} {name}{suggestion(name, known)}")


def _ports(config: Config, document: Document) -> Problems:
    """Each listener needs a TCP port of its own."""
    listeners: list[tuple[KeyPath, str, int]] = [
        (("health", "port"), config.health.host, config.health.port),
        (("audiosocket", "port"), config.audiosocket.host, config.audiosocket.port),
    ]
    if config.admin.ui.enabled:
        listeners.append((("admin", "ui", "port"), config.admin.ui.host, config.admin.ui.port))
    for one, other in itertools.combinations(listeners, 2):
        path, host, port = one
        if port and port == other[2] and _overlap(host, other[1]):
            names = f"{dotted(path)} and {dotted(other[0])}"
            place = other[0] if document.has(other[0]) else path
            yield document.problem(place, f"{names} are both {port}; expected two ports")


def _overlap(one: str, other: str) -> bool:
    """Return True if two addresses to bind to cannot have the same port. `0.0.0.0` is every IPv4
    address, `::` every IPv6 address."""
    same_family = (":" in one) == (":" in other)
    return one == other or (same_family and bool({"0.0.0.0", "::"} & {one, other}))  # noqa: S104


def _codec(config: Config, document: Document) -> Problems:
    """The transport must support the codec."""
    if config.asterisk is None:
        return
    codec, media = config.asterisk.codec, config.asterisk.media
    usable = MEDIA_CODECS.get(media)
    if usable is None:
        return  # a plug-in checks it itself: its path reports it at the start
    if codec not in ("auto", *usable):
        message = (
            f"{codec} cannot be used with `media: {media}`; expected auto or one of"
            f" {', '.join(usable)}"
        )
        yield document.problem(("asterisk", "codec"), message)
    elif codec == "g722" and not _is_installed("G722"):
        message = (
            "this needs the extra `g722`, which is not installed;"
            " pip install 'cordboard[g722]', or take another codec"
        )
        yield document.problem(("asterisk", "codec"), message)


def _extras(config: Config, document: Document) -> Problems:
    """Optional packages for configured parts must be installed."""
    if config.tracing.otlp_endpoint is not None and not _is_installed("opentelemetry.sdk"):
        message = (
            "this needs the extra `tracing`, which is not installed;"
            " pip install 'cordboard[tracing]', or leave it out"
        )
        yield document.problem(("tracing", "otlp_endpoint"), message)
    if config.cluster is not None and not _is_installed("nats"):
        message = (
            "this needs the extra `cluster`, which is not installed;"
            " pip install 'cordboard[cluster]', or leave it out"
        )
        yield document.problem(("cluster",), message)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


# --- the texts of a context ----------------------------------------------------------------


def _texts(context: Context, path: KeyPath, document: Document) -> Problems:
    """Every {placeholder} must be a call variable, or a declared channel variable."""
    for index, name in enumerate(context.variables):
        if name in CALL_VARIABLES:
            message = f"{name} is a call variable already; expected a channel variable"
            yield document.problem((*path, "variables", index), message)
    texts = {"prompt": context.prompt, "greeting": context.greeting, "purpose": context.purpose}
    for key, text in texts.items():
        # The purpose is ready when the call is answered, and waits for no tool.
        saved = saved_names(context.pre_call) if key != "purpose" else ()
        known = [*CALL_VARIABLES, *context.variables, *saved]
        for words, is_fatal in prompt_problems(text, known):
            yield document.problem((*path, key), words, fatal=is_fatal)
        for names in prompt_names(text, known):
            name = ".".join(names)
            if name not in known and names[0] not in saved:
                message = (
                    f"there is no call variable {{{name}}}{_nearest(name, known)};"
                    f" known: {', '.join(known)}; a channel variable must be listed in"
                    " `variables`, and a literal brace is written twice"
                )
                yield document.problem((*path, key), message)


def _nearest(name: str, known: Iterable[str]) -> str:
    hint = suggestion(name, known)
    return hint.rstrip("?") + "?" if "did you mean" in hint else ""


def _rules(names: ToolNames, context: Context, path: KeyPath, document: Document) -> Problems:
    """The tools and destinations of the rules must exist, and its parts should be of use."""
    rules = context.rules
    if rules is None:
        for number, name in enumerate(context.fallback):
            provider = names.config.providers.get(name)
            if getattr(getattr(provider, "brain", None), "type", "") == "rules":
                message = f"{name} needs `rules` in this context: it can only apologise without"
                yield document.problem((*path, "fallback", number), message, fatal=False)
        return
    for key, message in rules.useless():
        yield document.problem((*path, "rules", *inner_path(key)), message, fatal=False)
    for tool, key in rules.tools().items():
        if not may_use(names, context, tool):
            message = f"the tool {tool} is not in the `tools` of this context; add it there"
            yield document.problem((*path, "rules", *inner_path(key)), message)
    destinations = names.config.destinations
    for destination, key in rules.destinations().items():
        if destination not in destinations:
            place = (*path, "rules", *inner_path(key))
            yield _nothing_called(
                document, place, "tools.transfer destination", destination, destinations
            )


# --- MCP servers ---------------------------------------------------------------------------


def _remote_servers(config: Config, document: Document) -> Problems:
    """Data for a server on the network, and for its token endpoint, must be safe in transit."""
    for name, server in running_servers(config).items():
        auth = server.auth
        for url, key in (
            (server.url, ("url",)),
            (auth.token_url if auth is not None else None, ("auth", "token_url")),
        ):
            problem = url_problem(url, server.plain_http) if url is not None else None
            if problem is not None:
                yield document.problem(("mcp", "servers", name, *key), problem)


def _cluster_servers(config: Config, document: Document) -> Problems:
    """One engine that is alone is the one that runs them; the operator may have meant more."""
    if config.cluster is not None:
        return
    for name, server in running_servers(config).items():
        if server.run == "cluster":
            message = "there is no `cluster:`; this engine runs the server for itself alone"
            yield document.problem(("mcp", "servers", name, "run"), message, fatal=False)


def _programs(config: Config, document: Document, environ: Mapping[str, str]) -> Problems:
    """The program of each MCP server must exist; else that server will be down."""
    for name, server in running_servers(config).items():
        if server.transport != "stdio":
            continue
        program = server.command[0]
        place = ("mcp", "servers", name)
        if server.cwd is not None and not is_folder(server.cwd):
            message = f"there is no directory {server.cwd}; the server cannot start"
            yield document.problem((*place, "cwd"), message, fatal=False)
        elif not _can_be_run(program, server, environ):
            message = f"there is no program {program} that could be run; the server cannot start"
            yield document.problem((*place, "command"), message, fatal=False)


def _can_be_run(program: str, server: McpServer, environ: Mapping[str, str]) -> bool:
    if program in ("python", "python3"):
        return True  # if it is not on the PATH, the engine's own interpreter is used
    if "/" in program:
        return shutil.which((server.cwd or Path()) / program) is not None
    return shutil.which(program, path=server.env.get("PATH", environ.get("PATH"))) is not None

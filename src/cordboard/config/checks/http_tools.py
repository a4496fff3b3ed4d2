"""Checks of tools of `kind: http`: placeholders must have values, URLs must be usable.

Called by `cordboard.config.checks.semantics`. Values from the environment are never shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cordboard.config.call_phases import saved_names
from cordboard.config.call_variables import CALL_VARIABLES
from cordboard.config.explain import suggestion
from cordboard.config.remote_url import address_problem, inner_problem, is_loopback, literal_address
from cordboard.config.schema import Config
from cordboard.config.templates import (
    JsonTemplate,
    Placeholder,
    Template,
    placeholders_in,
    read_json_template,
)
from cordboard.config.tools.http_tool import CALL, HttpTool
from cordboard.config.url_template import UrlTemplate, read_url_template
from cordboard.config.yaml_document import Document, KeyPath
from cordboard.errors import ConfigProblem

Problems = Iterator[ConfigProblem]


def check_http_tools(config: Config, document: Document) -> Problems:
    """Yield all problems of the HTTP tools."""
    variables = known_variables(config)
    for name, tool in config.tools.items():
        if isinstance(tool, HttpTool):
            path = ("tools", name)
            yield from _placeholders(tool, path, document, variables)
            yield from _url(tool, (*path, "url"), document)


def known_variables(config: Config) -> tuple[str, ...]:
    """Return the names that may follow `call.`: a tool may serve any context."""
    contexts = config.contexts.values()
    declared = [name for context in contexts for name in context.variables]
    saved = [name for context in contexts for name in saved_names(context.pre_call)]
    return tuple(dict.fromkeys([*CALL_VARIABLES, *declared, *saved]))


def _placeholders(
    tool: HttpTool, path: KeyPath, document: Document, variables: Iterable[str]
) -> Problems:
    """Every placeholder must be an argument or a variable of the call."""
    for key in ("url", "query", "header_templates", "body", "form", "text"):
        template: JsonTemplate = read_json_template(getattr(tool, key))
        for inner, placeholder in placeholders_in(template):
            problem = _unknown(placeholder, tool.properties, variables)
            if problem:
                yield document.problem((*path, key, *inner), problem)


def _unknown(
    placeholder: Placeholder, properties: Iterable[str], variables: Iterable[str]
) -> str | None:
    name, *rest = placeholder.path
    if name != CALL:
        known = [*properties, CALL]
        if name in known:
            return None
        return f"there is no parameter {{{name}}}{_hint(name, known)}; {ADVICE}"
    return unknown_variable(".".join(rest), variables)


ADVICE = (
    "name it under `parameters`, write {call.…} for a variable of the call, and double a "
    "literal brace"
)


def unknown_variable(name: str, variables: Iterable[str]) -> str | None:
    """Return the problem of `{call.NAME}`, or None."""
    if name in variables:
        return None
    hint = _hint(name, variables)
    return (
        f"there is no variable {{{CALL}.{name}}}{hint}; a channel variable must be listed in the"
        " `variables` of a context"
    )


def _hint(name: str, known: Iterable[str]) -> str:
    return suggestion(name, known).rstrip("?")


def _url(tool: HttpTool, path: KeyPath, document: Document) -> Problems:
    url = read_url_template(tool.url)
    host = url.fixed_host
    if host is None:
        if not tool.allow_hosts:
            message = "a placeholder in the host needs `allow_hosts`: the only hosts it may lead to"
            yield document.problem(path, message)
    else:
        yield from _host(tool, url, host, path, document)
    yield from _always_there(tool, url, path, document)


def _host(
    tool: HttpTool, url: UrlTemplate, host: str, path: KeyPath, document: Document
) -> Problems:
    address = literal_address(host)
    if address is not None and (kind := address_problem(address)):
        yield document.problem(path, f"it leads to a {kind} address, where no request may go")
        return
    inner = inner_problem(address) if address is not None else "loopback" * is_loopback(host)
    if inner and not tool.allow_private:
        message = f"it leads to a {inner} address; write `allow_private: true` if that is meant"
        yield document.problem(path, message)
    elif url.scheme == "http" and not tool.allow_private and (tool.headers or tool.sign_with):
        message = (
            "http:// would send `headers` in the clear; expected https://, or `allow_private: true`"
            " for a service in a network of your own"
        )
        yield document.problem(path, message)


def _always_there(tool: HttpTool, url: UrlTemplate, path: KeyPath, document: Document) -> Problems:
    """Placeholders in path or host need a value in each request: without it the URL is another."""
    must: Template = (*url.host, *url.path)
    for piece in must:
        if not isinstance(piece, Placeholder) or piece.default is not None:
            continue
        name = piece.path[0]
        if name != CALL and name in tool.properties and not _is_given(tool, name):
            message = (
                f"{{{name}}} may be left out by the agent, and the URL has no meaning without it;"
                f" take `required: false` away, or give a default: {{{name}|...}}"
            )
            yield document.problem(path, message)


def _is_given(tool: HttpTool, name: str) -> bool:
    required = tool.schema_of_arguments.get("required", ())
    return name in required or "default" in tool.properties[name]

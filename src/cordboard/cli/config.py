"""`cordboard config ...`: the versions of the configuration, and edits of single keys. Needs no
running engine; one that watches its file takes the changes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cordboard.cli.options import DEFAULT_CONFIG, ConfigOption, system_user
from cordboard.errors import ConfigError, NotThere

if TYPE_CHECKING:
    from cordboard.config.edit.edits import Edit
    from cordboard.config.stored_secrets import StoredSecrets
    from cordboard.config.versions import Origin, Version, Versions
    from cordboard.config.yaml_document import KeyPath

app = typer.Typer(
    help="Versions of the configuration: history, diff, restore; set and remove keys.",
    no_args_is_help=True,
)

DataOption = Annotated[
    Path | None,
    typer.Option("--data", help="Folder with the versions. Default: admin.ui.data of the file."),
]
WhyOption = Annotated[str, typer.Option("--why", "-m", help="Reason, for the history.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="Such as contexts.demo.tools[0].")]
_KEY = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
SHOWN = 12
"""Characters of a digest in tables and messages."""


secrets_app = typer.Typer(
    help="Stored secrets, for the ${NAME} of the file; nothing shows a value again.",
    no_args_is_help=True,
)
app.add_typer(secrets_app, name="secrets")
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Such as SHOP_KEY.")]


@secrets_app.command("list")
def list_secrets(config: ConfigOption = DEFAULT_CONFIG, data: DataOption = None) -> None:
    """List the names of the stored secrets."""
    for name in _stored(config, data).names():
        note = "   (the environment of this shell has it too, and would win)"
        print(name + (note if name in os.environ else ""))


@secrets_app.command("set")
def set_secret(
    name: NameArgument, config: ConfigOption = DEFAULT_CONFIG, data: DataOption = None
) -> None:
    """Store a secret; the value is asked for, or read from standard input."""
    import getpass

    asked = sys.stdin.isatty()
    value = getpass.getpass(f"{name}: ") if asked else sys.stdin.read().rstrip("\r\n")
    _stored(config, data).put(name, value, system_user())
    print(f"{name} is stored; an engine that watches its file takes it: ${{{name}}}")


@secrets_app.command("remove")
def remove_secret(
    name: NameArgument, config: ConfigOption = DEFAULT_CONFIG, data: DataOption = None
) -> None:
    """Remove a stored secret."""
    _stored(config, data).remove(name)
    print(f"{name} is removed")


@app.command("history")
def history(
    config: ConfigOption = DEFAULT_CONFIG,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data: DataOption = None,
) -> None:
    """List the versions of the file, the newest first, with who changed it, when and why."""
    from cordboard.cli.screen import print_json, terminal, versions_table
    from cordboard.config.files import digest_of

    found = versions_of(config, data).history()[:limit]
    in_file = digest_of(_bytes(config)) if config.is_file() else ""
    rows = [_row(version, version.digest == in_file) for version in found]
    if json:
        print_json(rows)
        return
    if not rows:
        print(f"there are no versions of {config} yet")
        return
    terminal().print(versions_table(rows))
    if in_file != found[0].digest:
        print(f"{config} has been changed since; the engine notes it when it loads the file")


@app.command("diff")
def diff(
    old: Annotated[str, typer.Argument(help="A version; default: the newest one.")] = "",
    new: Annotated[str, typer.Argument(help="A version; default: the file as it is.")] = "",
    config: ConfigOption = DEFAULT_CONFIG,
    data: DataOption = None,
) -> None:
    """Show the differences of two versions, or of a version and the file. Secrets are not shown."""
    versions = versions_of(config, data)
    before = old or versions.latest()
    if not before:
        raise NotThere("there are no versions yet; see `cordboard config history`")
    first = versions.content(before)
    second = versions.content(new) if new else _bytes(config)
    name = versions.find(new)[:SHOWN] if new else str(config)
    _print_diff(first, second, (versions.find(before)[:SHOWN], name), config)


@app.command("restore")
def restore(
    version: Annotated[str, typer.Argument(help="A version, or the beginning of its name.")],
    config: ConfigOption = DEFAULT_CONFIG,
    why: WhyOption = "",
    yes: YesOption = False,
    data: DataOption = None,
) -> None:
    """Put the text of a version back into the file, if an engine could run with it."""
    versions = versions_of(config, data)
    content = versions.content(version)
    name = versions.find(version)[:SHOWN]
    _publish(
        _text(content, Path(f"version {name}")),
        _bytes(config),
        config,
        versions,
        ("restore", why or f"back to {name}"),
        names=(str(config), name),
        yes=yes,
    )


@app.command("set")
def set_key(
    key: KeyArgument,
    value: Annotated[str, typer.Argument(help="The new value, as YAML: 5, true, [a, b], text.")],
    config: ConfigOption = DEFAULT_CONFIG,
    text: Annotated[bool, typer.Option("--text", help="The value is a text, not YAML.")] = False,
    why: WhyOption = "",
    yes: YesOption = False,
    data: DataOption = None,
) -> None:
    """Give one key of the file a value; comments and all other lines stay as they are."""
    from cordboard.config.edit.edits import Set

    _edit(lambda path: Set(path, value if text else _value(value)), key, config, why, yes, data)


@app.command("remove")
def remove_key(
    key: KeyArgument,
    config: ConfigOption = DEFAULT_CONFIG,
    why: WhyOption = "",
    yes: YesOption = False,
    data: DataOption = None,
) -> None:
    """Remove one key of the file, with its comments; all other lines stay as they are."""
    from cordboard.config.edit.edits import Remove

    _edit(Remove, key, config, why, yes, data)


def _edit(
    edit: Callable[[KeyPath], Edit], key: str, config: Path, why: str, yes: bool, data: Path | None
) -> None:
    from cordboard.config.edit.apply import apply

    before = _bytes(config)
    text = apply(_text(before, config), [edit(_path(key))], str(config))
    names = str(config), f"{config} with the change"
    _publish(text, before, config, versions_of(config, data), ("cli", why), names=names, yes=yes)


def _publish(
    text: str,
    before: bytes,
    config: Path,
    versions: Versions,
    origin: tuple[Origin, str],
    *,
    names: tuple[str, str],
    yes: bool,
) -> None:
    from cordboard.config.files import digest_of
    from cordboard.config.publish import publish
    from cordboard.config.versions import Author

    if text.encode("utf-8") == before:
        print(f"{config}: nothing has changed")
        return
    _print_diff(before, text.encode("utf-8"), names, config)
    if not yes:
        typer.confirm(f"\nWrite this to {config}?", abort=True)
    author = Author(system_user(), origin[1], origin[0])
    digest = publish(text, digest_of(before), author, config, versions, os.environ)
    how = "an engine that watches its file takes it; otherwise: cordboard reload"
    print(f"{config} is written, version {digest[:SHOWN]}; {how}")


def _print_diff(before: bytes, after: bytes, names: tuple[str, str], config: Path) -> None:
    from cordboard.config.workspace import difference
    from cordboard.mcp.printable import printable

    if before == after:
        print("no differences")
        return
    texts = (_text(before, config), _text(after, config))
    try:
        found = difference(*texts, names, config, os.environ)
    except ConfigError as error:
        print(f"the differences are not shown, since secrets cannot be found in them: {error}")
        return
    shown = [printable(line) for line in found]
    print("\n".join(shown) if shown else "only secrets, or line breaks, differ")


def _text(content: bytes, config: Path) -> str:
    from cordboard.config.load import decoded

    return "\ufeff" * content.startswith(b"\xef\xbb\xbf") + decoded(content, config)


def versions_of(config: Path, data: Path | None) -> Versions:
    from cordboard.config.versions import Versions

    return Versions(_data(config, data) / "versions", config)


def _stored(config: Path, data: Path | None) -> StoredSecrets:
    from cordboard.config.stored_secrets import StoredSecrets

    return StoredSecrets(_data(config, data))


def _data(config: Path, data: Path | None) -> Path:
    from cordboard.cli.options import text_at
    from cordboard.config.sections.admin import AdminUi

    default = AdminUi().data
    try:
        return data or Path(text_at(config, ("admin", "ui", "data")) or default)
    except ConfigError as error:  # a broken file is what `restore` is for
        print(f"cordboard: {error}; the folder {default} is used", file=sys.stderr)
        return default


def _bytes(config: Path) -> bytes:
    from cordboard.config.files import content_of
    from cordboard.config.load import MOST_KIB

    try:
        return content_of(config, MOST_KIB)
    except OSError as error:
        raise NotThere(f"{config} cannot be read: {error.strerror or error}") from None


def _path(key: str) -> KeyPath:
    if not re.fullmatch(r"[^.\[\]]+(\.[^.\[\]]+|\[\d+\])*", key):
        raise typer.BadParameter(f"{key!r} is not a key such as contexts.demo.tools[0]")
    return tuple(name or int(index) for name, index in _KEY.findall(key))


def _value(written: str) -> Any:
    from cordboard.config.yaml_document import parse

    try:
        document = parse(f"value: {written}\n", "VALUE")
    except ConfigError:
        raise typer.BadParameter(f"{written!r} is not YAML; for a text add --text") from None
    if document.problems or document.tree.keys() != {"value"}:
        raise typer.BadParameter(f"{written!r} is not one YAML value; for a text add --text")
    return document.tree["value"]


def _row(version: Version, in_file: bool) -> dict[str, Any]:
    return {
        "version": version.digest,
        "at": version.at,
        "from": version.author.source,
        "who": version.author.who,
        "why": version.author.why,
        "parent": version.parent,
        "generation": version.generation,
        "result": version.result,
        "in_file": in_file,
    }

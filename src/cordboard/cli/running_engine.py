"""The running engine for commands: its HTTP port, found by the configuration file.

Only `health` and `admin` of the file are read. So commands work in a shell without some of the
engine's environment variables, and while the rest of the file is being mended.
"""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from cordboard.config.environment import expand
from cordboard.config.files import SecretFiles
from cordboard.config.load import text_of
from cordboard.config.schema import Health
from cordboard.config.section import Section
from cordboard.config.sections.admin import Admin, AdminUi
from cordboard.config.yaml_document import Document, KeyPath, parse
from cordboard.errors import ConfigError, EngineRefused, EngineUnreachable

READ_SECONDS = 10.0
"""Timeout of a question."""
WORK_SECONDS = 300.0
"""Timeout of work that starts or stops MCP servers; the engine has tighter limits."""
_MOST_BYTES = 64 * 1024 * 1024
_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - not bound to


@dataclass(frozen=True, slots=True)
class RunningEngine:
    """Address of an engine with that configuration. Made by `running_engine`."""

    config: Path
    host: str
    port: int
    token: str = field(default="", repr=False)
    lacking: tuple[str, ...] = ()
    """Steps to get the token: environment variables to set, a file to read."""

    @property
    def url(self) -> str:
        """For messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    def get(self, path: str) -> Any:
        """Send a GET request. Raises `EngineUnreachable` or `EngineRefused`."""
        return self.taken(*self.answer("GET", path, READ_SECONDS))

    def post(self, path: str, content: Any = None) -> Any:
        """Send a POST request, with JSON if there is `content`. Raises `EngineUnreachable` or
        `EngineRefused`."""
        return self.taken(*self.answer("POST", path, WORK_SECONDS, content))

    def answer(
        self, method: str, path: str, seconds: float, content: Any = None
    ) -> tuple[int, Any]:
        """Return status and JSON of any answer. Raises `EngineUnreachable`."""
        status, body = self.page(method, path, seconds, content)
        try:
            return status, orjson.loads(body)
        except orjson.JSONDecodeError:
            raise EngineUnreachable(f"the server at {self.url} is not a Cordboard engine") from None

    def page(
        self, method: str, path: str, seconds: float = READ_SECONDS, content: Any = None
    ) -> tuple[int, bytes]:
        """Return status and body of any answer. Raises `EngineUnreachable`."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=seconds)
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        sent = None if content is None else orjson.dumps(content)
        if sent is not None:
            headers["Content-Type"] = "application/json"
        encoded = {name: value.encode() for name, value in headers.items()}
        try:
            connection.request(method, path, body=sent, headers=encoded)
            response = connection.getresponse()
            return response.status, response.read(_MOST_BYTES)
        except ValueError:  # http.client's word for a header that cannot be sent
            message = "admin.token has characters that no HTTP header can have (a line break?)"
            raise EngineUnreachable(message) from None
        except TimeoutError:
            message = f"the engine at {self.url} did not answer within {seconds:.0f} s"
            raise EngineUnreachable(message) from None
        except (OSError, http.client.HTTPException) as error:
            raise EngineUnreachable(self._absent(error)) from None
        finally:
            connection.close()

    def _absent(self, error: Exception) -> str:
        if isinstance(error, ConnectionRefusedError):
            return (
                f"no engine is running at {self.url}; start it with: "
                f"cordboard run --config {self.config}"
            )
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"the engine at {self.url} cannot be reached: {reason}"

    def taken(self, status: int, body: Any) -> Any:
        """Return the body of a good answer. Raises `EngineRefused` for any other."""
        if 200 <= status < 300:
            return body
        message = body.get("error") if isinstance(body, dict) else None
        words = f"the engine at {self.url} refused: {message or f'HTTP status {status}'}"
        if status == 401 and not self.token:
            words += f"; {self._no_token()}"
        elif status == 401:
            words += f"; the one in {self.config} (admin.token) is another than the engine's"
        raise EngineRefused(words, status)

    def _no_token(self) -> str:
        if self.lacking:
            return "; ".join(self.lacking)
        return f"set admin.token in {self.config}"


def running_engine(config: Path, environ: Mapping[str, str]) -> RunningEngine:
    """Return the address of a configuration file's engine. Raises `ConfigError`."""
    document = parse(text_of(config), str(config))
    values = _Values(environ, SecretFiles(config.parent))
    health = _section(document, ("health",), Health, values)
    values.lacking.clear()
    admin = _section(document, ("admin",), Admin, values, without="ui")
    if health.port == 0:
        message = "the port is 0, any free one; commands need a fixed one to find the engine"
        raise ConfigError([document.problem(("health", "port"), message)])
    token = admin.token.get_secret_value() if admin.token is not None else ""
    host = _ANYWHERE.get(health.host, health.host)
    return RunningEngine(config, host, health.port, token, tuple(values.lacking))


@dataclass
class _Values:
    """The values of `${...}`, as far as this shell has them."""

    environ: Mapping[str, str]
    files: SecretFiles
    lacking: list[str] = field(default_factory=list)
    """Steps to get the other values."""

    def filled(self, value: Any) -> Any:
        """Return a value of the file with its texts expanded."""
        if isinstance(value, dict):
            return {key: self.filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner) for inner in value]
        return self._expanded(value) if isinstance(value, str) else value

    def _expanded(self, text: str) -> str:
        result = expand(text, self.environ, self.files)
        if result.missing:
            names = " and ".join(result.missing)
            self.lacking.append(f"set {names} here as in the engine's environment")
        self.lacking += result.problems
        return result.text


def admin_ui(config: Path, environ: Mapping[str, str]) -> AdminUi:
    """Return a configuration file's `admin.ui`; only that section is read. Raises `ConfigError`."""
    document = parse(text_of(config), str(config))
    values = _Values(environ, SecretFiles(config.parent))
    section = _section(document, ("admin", "ui"), AdminUi, values)
    if values.lacking:
        raise ConfigError([document.problem(("admin", "ui"), "; ".join(values.lacking))])
    return section


SectionKind = TypeVar("SectionKind", bound=Section)


def _section(
    document: Document,
    path: KeyPath,
    kind: type[SectionKind],
    values: _Values,
    without: str = "",
) -> SectionKind:
    """Return one section, without one of its keys. Raises `ConfigError`."""
    section = document.get(path) or {}
    if not isinstance(section, dict):
        raise ConfigError([document.problem(path, "expected a mapping")])
    expanded = {key: values.filled(value) for key, value in section.items() if key != without}
    try:
        return kind.model_validate(expanded)
    except ValidationError:
        message = "it is not in order; `cordboard check` says what is wrong"
        raise ConfigError([document.problem(path, message)]) from None

"""The settings file: its schema, reading it, and detecting edits.

``load`` reads and checks a file; ``SettingsFile`` returns the current settings and re-reads the
file when it has changed on disk. A broken edit does not stop the server: the last good settings
stay in force, and the problem goes to the log once and into every result (``settings_problem``)
until the file is good again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from .model import SettingsError

logger = logging.getLogger(__name__)

MET_NO = "https://api.met.no/weatherapi/tafmetar/1.0"
"""api.met.no, product Tafmetar 1.0; ``/metar.txt?icao=ENGM`` gives the last 24 hours."""

USER_AGENT_VARIABLE = "METNO_USER_AGENT"
CACHE_TTL_VARIABLE = "METNO_CACHE_TTL_SECONDS"

_CONTACT = re.compile(r"@|https?://|\b[a-z0-9-]+\.[a-z]{2,}\b", re.IGNORECASE)
_RUNWAY = re.compile(r"(0[1-9]|[12]\d|3[0-6])[LRC]?")
_FREQUENCY = re.compile(r"1[0-3]\d(\.\d{1,3})?")


def _texts(value: Any) -> Any:
    """Convert one item to a list; return a list unchanged."""
    return [value] if isinstance(value, (str, int, float)) else value


def _runways(value: Any) -> Any:
    listed = _texts(value)
    if not isinstance(listed, list):
        return listed
    # Unquoted, YAML reads 04 as the number 4.
    names = [f"{one:02d}" if isinstance(one, int) else str(one).upper() for one in listed]
    for name in names:
        if not _RUNWAY.fullmatch(name):
            raise ValueError(f"{name!r} is not a runway such as 04, 19R or [01L, 01R]")
    return names


def _frequency(value: Any) -> Any:
    text = str(value) if isinstance(value, (int, float, str)) else value
    if isinstance(text, str) and not _FREQUENCY.fullmatch(text):
        raise ValueError(f"{text!r} is not a frequency in MHz such as '118.300'")
    return text


def _letter(value: Any) -> Any:
    if value is None or str(value).lower() == "none":
        return "none"
    if str(value).lower() == "derived":
        return "derived"
    if re.fullmatch(r"[A-Za-z]", str(value)):
        return str(value).upper()
    raise ValueError("expected none, derived or one letter A to Z")


Letter = Annotated[str, BeforeValidator(_letter)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class MetnoSettings(_Section):
    """Settings of the requests to met.no."""

    base_url: str = MET_NO
    user_agent: str | None = None
    timeout_seconds: float = Field(default=10.0, gt=0, le=60)
    cache_ttl_seconds: float = Field(default=300.0, gt=0, le=1800)
    max_requests_per_second: float = Field(default=5.0, gt=0, le=20)
    retry_pause_seconds: float = Field(default=5.0, ge=0, le=300)
    refresh_in_background: bool = True
    refresh_used_within_seconds: float = Field(default=3600.0, gt=0)

    @model_validator(mode="after")
    def _secure(self) -> Self:
        url = urlsplit(self.base_url)
        loopback = url.hostname in ("127.0.0.1", "::1", "localhost")
        if url.scheme != "https" and not (url.scheme == "http" and loopback):
            raise ValueError("base_url must be https (plain http only on the loopback interface)")
        return self


class Defaults(_Section):
    """Settings for every aerodrome that does not override them."""

    explicit_not_available: bool = False
    information: Letter = "none"


class AerodromeSettings(_Section):
    """Facts about an aerodrome that the weather report does not contain."""

    name: str | None = None
    aliases: Annotated[list[str], BeforeValidator(_texts)] = []
    runway: Annotated[list[str], BeforeValidator(_runways)] = []
    frequency: Annotated[str | None, BeforeValidator(_frequency)] = None
    advisories: Annotated[list[str], BeforeValidator(_texts)] = []
    information: Letter | None = None
    explicit_not_available: bool | None = None


class Settings(_Section):
    """The whole file."""

    source: Literal["metno", "file"] = "metno"
    metar_file: Path | None = None
    max_age_minutes: float = Field(default=90.0, gt=0)
    metno: MetnoSettings = MetnoSettings()
    defaults: Defaults = Defaults()
    aerodromes: dict[Annotated[str, Field(pattern="^[A-Z]{4}$")], AerodromeSettings] = {}

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.source == "file" and self.metar_file is None:
            raise ValueError("source: file needs metar_file: the path of a file with METARs")
        if self.source == "metno":
            require_user_agent(self.metno.user_agent)
        return self


def require_user_agent(user_agent: str | None) -> str:
    """Return a valid User-Agent: met.no's terms require clients to identify their operator."""
    if not user_agent or not user_agent.strip():
        raise ValueError(
            f"source: metno needs a User-Agent that names you: set {USER_AGENT_VARIABLE} or "
            "metno.user_agent, for example 'my-hotline/1.0 ops@example.org'"
        )
    if not _CONTACT.search(user_agent) or not user_agent.isascii() or not user_agent.isprintable():
        raise ValueError(
            f"the User-Agent {user_agent!r} must hold an e-mail address or a web address in plain "
            "ASCII, so that met.no can reach you"
        )
    return user_agent.strip()


def load(path: Path, environment: Mapping[str, str]) -> Settings:
    """Read and check the file. The environment overrides the two met.no settings.

    Raises ``SettingsError`` with a text for the operator.
    """
    try:
        tree = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from error
    except YAMLError as error:
        raise SettingsError(f"{path}: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise SettingsError(f"{path}: expected keys such as source: and aerodromes:")
    _apply_environment(tree, environment)
    try:
        settings = Settings.model_validate(tree)
    except ValidationError as error:
        raise SettingsError(f"{path}: {_explained(error)}") from error
    if settings.metar_file is not None:
        absolute = path.parent / settings.metar_file
        settings = settings.model_copy(update={"metar_file": absolute})
    return settings


def _apply_environment(tree: dict[str, Any], environment: Mapping[str, str]) -> None:
    metno = tree.get("metno") or {}
    if not isinstance(metno, dict):
        return
    for variable, key in (
        (USER_AGENT_VARIABLE, "user_agent"),
        (CACHE_TTL_VARIABLE, "cache_ttl_seconds"),
    ):
        if environment.get(variable, "").strip():
            metno[key] = environment[variable].strip()
    tree["metno"] = metno


def _explained(error: ValidationError) -> str:
    problems = []
    for problem in error.errors():
        where = ".".join(str(part) for part in problem["loc"] if part != "[key]")
        text = problem["msg"].removeprefix("Value error, ")
        problems.append(f"{where}: {text}" if where else text)
    return "; ".join(problems)


class SettingsFile:
    """The settings in force, kept in step with the file.

    Raises ``SettingsError`` on construction if the file cannot be used: without a first good
    reading there are no settings to fall back to.
    """

    def __init__(self, path: Path, environment: Mapping[str, str]) -> None:
        self._path = path
        self._environment = dict(environment)
        self._seen = self._signature()
        self._settings = load(path, self._environment)
        self.problem: str | None = None
        """Problem of the present file; None while it is the one in force."""

    def current(self) -> Settings:
        """Return the settings in force. One ``stat`` call; reads the file only if it has
        changed."""
        signature = self._signature()
        if signature == self._seen:
            return self._settings
        self._seen = signature
        try:
            self._settings = load(self._path, self._environment)
        except SettingsError as error:
            self.problem = str(error)
            logger.error("settings are broken, the last good ones stay in force: %s", error)
        else:
            self.problem = None
            logger.info("settings read again from %s", self._path)
        return self._settings

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

"""Plug-ins that cannot be used: each is named with its distribution, and the rest goes on."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from pydantic import Field, model_validator

from cordboard.agent_api.provider import Parts, Provider
from cordboard.agents.making import make, model_brain, plugin_problems
from cordboard.agents.online_check import check_online
from cordboard.agents.providers import Providers
from cordboard.audio.pacer import Pacer
from cordboard.config.load import read
from cordboard.config.plugins import Plugins, built_in, collect
from cordboard.config.sections.parts import PartSection
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.config.sections.service import Service
from cordboard.config.sections.tool import ToolSection
from cordboard.errors import AgentError, ConfigError, ListenError, MediaError
from cordboard.net.service_websocket import Address
from cordboard.observe.metrics import Metrics
from cordboard.telephony.asterisk.transport import NoMediaPath, Transport, plugin_path
from cordboard.tools.plugin import ToolType, plugin_tools
from cordboard.vendors.openai.config import OpenAIRealtimeProvider
from cordboard.vendors.openai.realtime.protocol import OpenAIProtocol

CONTEXTS = "\ncontexts: {demo: {}}\n"
OF_CROW = "plug-in crow of cordboard-crow 1.2.3"


class Crow(PartSection):
    type: Literal["crow"] = Field(description="The kind.")
    feathers: int = Field(0, description="How many.")


class CrowVoice(PartSection):
    type: Literal["crow_voice"] = Field(description="The kind.")


class CrowTool(ToolSection):
    kind: Literal["crow"] = Field(description="The kind.")


def caws(*_: Any) -> Any:
    raise RuntimeError("caw")


def a_text(*_: Any) -> Any:
    return "caw"


def installed_with(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    offered: Any,
    group: str = "cordboard.providers",
    distribution: str = "cordboard-crow",
) -> Plugins:
    """The parts with a plug-in `crow`, as an installer would have left it: its facts lie where
    `installed()` does not look."""
    module = distribution.replace("-", "_")
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / f"{module}.py").write_text("from offered_here import OFFERED\n")
    info = tmp_path / f"{module}-1.2.3.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {distribution}\nVersion: 1.2.3\n")
    (info / "entry_points.txt").write_text(f"[{group}]\ncrow = {module}:OFFERED\n")
    monkeypatch.syspath_prepend(modules)
    monkeypatch.setitem(__import__("sys").modules, "offered_here", SimpleNamespace(OFFERED=offered))
    for name in ("cordboard_crow", "cordboard_raven"):
        monkeypatch.delitem(__import__("sys").modules, name, raising=False)
    return collect(built_in(), points(tmp_path))


def points(folder: Path) -> list[EntryPoint]:
    return [point for each in distributions(path=[str(folder)]) for point in each.entry_points]


class NoSection:
    pass


class CrowWithACall(Crow):
    call: Callable[[], None] | None = Field(None, description="Has no JSON schema.")


@pytest.mark.parametrize(
    ("offered", "reason"),
    [
        (None, "offers a NoneType, which is not a descriptor"),
        (SimpleNamespace(type="crow", role="agent"), "offers a SimpleNamespace, which is not"),
        (
            Provider("crow", "tool", Crow, caws),  # type: ignore[arg-type]
            "crow has the role 'tool'; cordboard.providers takes agent, stt, llm, tts",
        ),
        (
            Provider("raven", "agent", Crow, caws),
            "the type raven must be crow, or begin with crow_",
        ),
        (
            Provider("crow", "llm", Crow, caws),
            "the section of crow is not a LanguageModelBrain, which the role llm needs",
        ),
        (
            Provider("crow", "agent", NoSection, caws),  # type: ignore[type-var]
            "the section of crow is not a PartSection, which the role agent needs",
        ),
        (
            Provider("crow_voice", "tts", Crow, caws),
            "the section of crow_voice needs `type: Literal['crow_voice']`",
        ),
        (
            Provider("crow", "agent", CrowWithACall, caws),
            "the section of crow has no JSON schema: PydanticInvalidForJsonSchema",
        ),
    ],
)
def test_a_descriptor_that_lies_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offered: Any, reason: str
) -> None:
    plugins = installed_with(tmp_path, monkeypatch, offered)
    (broken,) = plugins.broken
    assert str(broken).startswith(f"{OF_CROW}: {reason}")
    assert plugins.sources == {}


def test_of_two_descriptors_the_good_one_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = (Provider("crow", "agent", Crow, caws), Provider("openai", "tts", Crow, caws))
    plugins = installed_with(tmp_path, monkeypatch, offered)
    assert [str(broken) for broken in plugins.broken] == [
        f"{OF_CROW}: the type openai must be crow, or begin with crow_"
    ]
    assert str(plugins.sources["agent", "crow"]) == OF_CROW


def test_a_type_that_is_taken_stays_with_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crow = Provider("crow", "agent", Crow, caws)
    (tmp_path / "raven").mkdir()
    installed_with(tmp_path, monkeypatch, crow)
    installed_with(tmp_path / "raven", monkeypatch, crow, distribution="cordboard-raven")
    plugins = collect(built_in(), [*points(tmp_path / "raven"), *points(tmp_path)])
    assert [str(broken) for broken in plugins.broken] == [
        "plug-in crow of cordboard-raven 1.2.3: the agent type crow is taken"
    ]
    assert str(plugins.sources["agent", "crow"]) == OF_CROW


@pytest.mark.parametrize(
    ("name", "role", "group"),
    [
        ("openai", "tts", "cordboard.providers"),
        ("pipeline", "agent", "cordboard.providers"),
        ("rtp", "transport", "cordboard.transports"),
        ("mcp", "tool", "cordboard.tools"),
    ],
)
def test_the_engines_own_types_are_taken(name: str, role: str, group: str) -> None:
    class Named(EntryPoint):
        def load(self) -> Any:
            return SimpleNamespace(type=name, role=role, section=Crow, make=caws)

    (broken,) = collect(built_in(), [Named(name, "x:y", group)]).broken
    assert broken.reason == f"the {role} type {name} is taken"


@pytest.mark.parametrize("error", [ImportError("no feathers"), SystemExit(3), RuntimeError("x")])
def test_whatever_an_import_raises_the_rest_is_there(error: BaseException) -> None:
    class Failing(EntryPoint):
        def load(self) -> Any:
            raise error

    plugins = collect(built_in(), [Failing("crow", "x:y", "cordboard.providers")])
    (broken,) = plugins.broken
    assert broken.reason == f"cannot be imported: {type(error).__name__}: {error}"
    assert ("tts", "openai") in plugins.descriptors


BROKEN = """
default_provider: bird
providers:
  bird: {type: crow, feathers: 9}
  parts: {type: pipeline, stt: {type: crow_ear}, tts: crow_voice}
tools: {count: {kind: crow, any: thing, description: Counts.}}
asterisk: {password: x, media: crow}
contexts: {demo: {tools: [count]}}
"""


def test_a_file_that_names_a_broken_plugin_is_read_and_what_it_names_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing(EntryPoint):
        def load(self) -> Any:
            raise ImportError("no feathers")

    groups = ("cordboard.providers", "cordboard.tools", "cordboard.transports")
    plugins = collect(built_in(), [Failing("crow", "x:y", group) for group in groups])
    loaded = read(BROKEN, tmp_path / "a.yaml", {}, plugins)
    reason = "cannot be imported: ImportError: no feathers"
    told = {problem.key: problem.message.partition(": ")[2] for problem in loaded.problems}
    assert told == dict.fromkeys(
        ("providers.bird", "providers.parts.stt", "providers.parts.tts", "tools.count"), reason
    )
    config = loaded.config
    with pytest.raises(AgentError, match="no feathers"):
        Providers(config, None, plugins=plugins).open("demo", "bird")
    (problem,) = plugin_tools(config.tools, plugins)[1]
    assert "the tool count is not offered" in problem.message
    assert problem.message.endswith(reason)
    assert config.asterisk is not None
    path = plugin_path(config.asterisk, _no_pacer(), plugins)
    assert path.trouble.endswith(reason)
    with pytest.raises(ConfigError, match="expected one of"):
        read("providers: {a: {type: crown}}" + CONTEXTS, tmp_path / "a.yaml", {}, plugins)


def test_secrets_of_a_section_whose_plugin_is_broken_stay_secret(tmp_path: Path) -> None:
    plugins = collect(built_in(), [EntryPoint("crow", "no_such:thing", "cordboard.providers")])
    text = """
providers:
  bird: {type: crow, api_key: first-secret, nest: [{password: second-secret, tree: oak}]}
"""
    loaded = read(text + CONTEXTS, tmp_path / "a.yaml", {}, plugins)
    assert loaded.secrets == {"first-secret", "second-secret"}
    shown = repr(loaded.config)
    assert "oak" in shown
    assert "-secret" not in shown


def _no_pacer() -> Pacer:
    return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("makes", "reason"),
    [
        (caws, "make of crow failed: RuntimeError: caw"),
        (a_text, "make of crow gives a str, no Agent or ServiceProtocol"),
    ],
)
def test_an_agent_that_cannot_be_made_is_unready_and_fails_only_its_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, makes: Any, reason: str
) -> None:
    plugins = installed_with(tmp_path, monkeypatch, Provider("crow", "agent", Crow, makes))
    text = "default_provider: bird\nproviders: {bird: {type: crow}}" + CONTEXTS
    config = read(text, tmp_path / "a.yaml", {}, plugins).config
    assert dict(plugin_problems(config, {}, plugins)) == {"bird": f"{OF_CROW}: {reason}"}
    providers = Providers(config, None, plugins=plugins)
    assert providers.unmade == {"bird": f"{OF_CROW}: {reason}"}
    with pytest.raises(AgentError) as raised:
        providers.open("demo", "bird")
    assert str(raised.value) == f"{OF_CROW}: {reason}"


def test_a_section_whose_validator_fails_is_broken_and_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Moody(Crow):
        @model_validator(mode="after")
        def _fails(self) -> Moody:
            raise RuntimeError("caw")

    plugins = installed_with(tmp_path, monkeypatch, Provider("crow", "agent", Moody, caws))
    text = "default_provider: bird\nproviders: {bird: {type: crow}}" + CONTEXTS
    (problem,) = read(text, tmp_path / "a.yaml", {}, plugins).problems
    assert str(problem).endswith(
        f"providers.bird: {OF_CROW}: the section of crow failed: RuntimeError: caw"
    )


def _fails(*_: Any) -> Any:
    raise KeyError("very-secret")


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"model_file": property(_fails)}, "KeyError: '***'"),
        (
            {"model_file": property(lambda _: None)},
            "TypeError: model_file is a NoneType, not a str",
        ),
        ({"key": _fails}, "KeyError: '***'"),
        ({"key": lambda *_: None}, "TypeError: 'NoneType' object is not subscriptable"),
        ({"needs_key": property(_fails)}, "KeyError: '***'"),
        ({"paid_models": property(_fails)}, "KeyError: '***'"),
        ({"missing_key": _fails}, "KeyError: '***'"),
    ],
)
def test_a_section_whose_properties_fail_is_broken_and_the_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: dict[str, Any], reason: str
) -> None:
    class CrowService(Service):
        type: Literal["crow"] = Field(description="The kind.")

    section = type("Moody", (CrowService,), members)
    plugins = installed_with(tmp_path, monkeypatch, Provider("crow", "agent", section, caws))
    text = "default_provider: bird\nproviders: {bird: {type: crow, api_key: very-secret}}"
    loaded = read(text + CONTEXTS, tmp_path / "a.yaml", {}, plugins)
    (problem,) = loaded.problems
    told = f"{OF_CROW}: the section of crow failed: {reason}"
    assert str(problem).endswith(f"providers.bird: {told}")
    assert "very-secret" in loaded.secrets
    assert Providers(loaded.config, None, plugins=plugins).unmade == {"bird": told}


async def test_probes_that_fail_are_one_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CrowService(Service):
        type: Literal["crow"] = Field(description="The kind.")

    offered = Provider("crow", "agent", CrowService, caws, probes=caws)
    plugins = installed_with(tmp_path, monkeypatch, offered)
    text = "providers: {bird: {type: crow, api_key: k}, local: {type: pipeline}}" + CONTEXTS
    config = read(text, tmp_path / "a.yaml", {}, plugins).config
    (finding,) = await check_online(config, {}, plugins=plugins)
    assert (finding.provider, finding.state) == ("bird", "refused")
    assert finding.advice == f"{OF_CROW}: its probes failed: RuntimeError: caw"


async def test_a_session_that_fails_is_one_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CrowService(RealtimeProvider):
        type: Literal["crow"] = Field(description="The kind.")

    class Silly(OpenAIProtocol):
        async def address(self) -> Address:
            raise KeyError("very-secret")

    def silly(section: CrowService, parts: Parts) -> Any:
        return Silly(OpenAIRealtimeProvider(type="openai_realtime"), parts.key)

    plugins = installed_with(tmp_path, monkeypatch, Provider("crow", "agent", CrowService, silly))
    text = "providers: {bird: {type: crow, api_key: very-secret}, local: {type: pipeline}}"
    config = read(text + CONTEXTS, tmp_path / "a.yaml", {}, plugins).config
    (finding,) = await check_online(config, {}, plugins=plugins)
    assert (finding.provider, finding.state) == ("bird", "refused")
    assert finding.advice == f"{OF_CROW}: its session failed: KeyError: '***'"


def test_a_key_that_a_plugin_quotes_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CrowService(Service):
        type: Literal["crow"] = Field(description="The kind.")

    def quotes(section: CrowService, parts: Parts) -> Any:
        raise ValueError(f"cannot use {parts.key}")

    plugins = installed_with(tmp_path, monkeypatch, Provider("crow", "agent", CrowService, quotes))
    text = "providers: {bird: {type: crow, api_key: very-secret}, local: {type: pipeline}}"
    config = read(text + CONTEXTS, tmp_path / "a.yaml", {}, plugins).config
    assert dict(plugin_problems(config, {}, plugins)) == {
        "bird": f"{OF_CROW}: make of crow failed: ValueError: cannot use ***"
    }


def test_a_voice_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = Provider("crow_voice", "tts", CrowVoice, a_text)
    plugins = installed_with(tmp_path, monkeypatch, offered)
    with pytest.raises(AgentError, match="make of crow_voice gives a str, no Voice"):
        make("tts", CrowVoice(type="crow_voice"), Parts(), plugins)


def test_a_model_that_cannot_be_made_is_a_brain_with_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cordboard.config.sections.language_model import LanguageModelBrain

    class CrowBrain(LanguageModelBrain):
        type: Literal["crow"] = Field(description="The kind.")
        model: str = Field("m", description="The model.")

    plugins = installed_with(tmp_path, monkeypatch, Provider("crow", "llm", CrowBrain, caws))
    brain = model_brain(CrowBrain(type="crow"), {}, plugins=plugins)
    assert str(brain.problem) == f"{OF_CROW}: make of crow failed: RuntimeError: caw"


class ToolWithoutSpec:
    @property
    def spec(self) -> Any:
        return caws()

    async def run(self, arguments: Any, run: Any) -> Any:
        caws()


@pytest.mark.parametrize(
    ("makes", "reason"),
    [
        (caws, "make of crow failed: RuntimeError: caw"),
        (a_text, "make of crow gives a str, no Tool"),
        (lambda *_: ToolWithoutSpec(), "make of crow failed: RuntimeError: caw"),
    ],
)
def test_a_tool_that_cannot_be_made_is_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, makes: Any, reason: str
) -> None:
    offered = ToolType("crow", CrowTool, makes)
    plugins = installed_with(tmp_path, monkeypatch, offered, "cordboard.tools")
    text = "tools: {count: {kind: crow}}" + CONTEXTS
    config = read(text, tmp_path / "a.yaml", {}, plugins).config
    tools, (problem,) = plugin_tools(config.tools, plugins)
    assert tools == ()
    assert problem.message == f"the tool count is not offered: {OF_CROW}: {reason}"


@pytest.mark.parametrize(
    ("makes", "reason"),
    [
        (caws, "make of crow failed: RuntimeError: caw"),
        (a_text, "make of crow gives a str, not a MediaPath"),
    ],
)
async def test_a_transport_that_cannot_be_made_is_in_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, makes: Any, reason: str
) -> None:
    plugins = installed_with(
        tmp_path, monkeypatch, Transport("crow", makes), "cordboard.transports"
    )
    text = "asterisk: {password: x, media: crow}" + CONTEXTS
    config = read(text, tmp_path / "a.yaml", {}, plugins).config
    assert config.asterisk is not None
    path = plugin_path(config.asterisk, _no_pacer(), plugins)
    assert isinstance(path, NoMediaPath)
    assert path.trouble == f"{OF_CROW}: {reason}"
    await path.start()
    with pytest.raises(MediaError, match="make of crow"):
        await path.prepare([])
    await path.stop()


class CrowPath:
    """A transport each of whose methods fails."""

    connect_seconds = 1.0

    def __init__(self) -> None:
        self.troubles = 0

    @property
    def trouble(self) -> str:
        self.troubles += 1
        if self.troubles > 2:
            caws()
        return ""

    def health(self) -> Any:
        caws()

    def report(self, metrics: Any) -> None:
        caws()

    async def prepare(self, formats: Any) -> Any:
        caws()

    async def start(self) -> None:
        caws()

    async def stop(self) -> None:
        caws()


async def test_a_transport_that_fails_later_is_named_and_the_engine_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = Transport("crow", lambda asterisk, pacer: CrowPath())  # type: ignore[arg-type]
    plugins = installed_with(tmp_path, monkeypatch, offered, "cordboard.transports")
    text = "asterisk: {password: x, media: crow}" + CONTEXTS
    config = read(text, tmp_path / "a.yaml", {}, plugins).config
    assert config.asterisk is not None
    path = plugin_path(config.asterisk, _no_pacer(), plugins)
    failed = f"{OF_CROW}: {{}} failed: RuntimeError: caw"
    told = [path.trouble for _ in range(3)]
    assert told[-1] == failed.format("trouble")
    assert path.health() == {"trouble": failed.format("health")}
    metrics = Metrics()
    path.report(metrics)
    path.report(metrics)
    assert 'internal_errors_total{where="media_path"} 1.0' in metrics.render().decode()
    with pytest.raises(MediaError, match="prepare failed: RuntimeError: caw"):
        await path.prepare([])
    await path.start()
    assert path.trouble == failed.format("start")
    assert path.health() == {}
    with pytest.raises(MediaError, match="start failed: RuntimeError: caw"):
        await path.prepare([])
    await path.stop()


def test_a_transport_without_a_time_to_connect_is_in_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Timeless(CrowPath):
        connect_seconds = None  # type: ignore[assignment]

    offered = Transport("crow", lambda asterisk, pacer: Timeless())  # type: ignore[arg-type]
    plugins = installed_with(tmp_path, monkeypatch, offered, "cordboard.transports")
    text = "asterisk: {password: x, media: crow}" + CONTEXTS
    config = read(text, tmp_path / "a.yaml", {}, plugins).config
    assert config.asterisk is not None
    path = plugin_path(config.asterisk, _no_pacer(), plugins)
    assert path.trouble.startswith(f"{OF_CROW}: make of crow failed: TypeError")


@pytest.mark.parametrize("error", [ListenError("taken"), MediaError("no such codec")])
async def test_a_transport_that_cannot_listen_says_so_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class Taken(CrowPath):
        async def start(self) -> None:
            raise error

    offered = Transport("crow", lambda asterisk, pacer: Taken())  # type: ignore[arg-type]
    plugins = installed_with(tmp_path, monkeypatch, offered, "cordboard.transports")
    text = "asterisk: {password: x, media: crow}" + CONTEXTS
    config = read(text, tmp_path / "a.yaml", {}, plugins).config
    assert config.asterisk is not None
    with pytest.raises(type(error), match=str(error)):
        await plugin_path(config.asterisk, _no_pacer(), plugins).start()


def test_a_transport_that_nobody_has_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected one of websocket, audiosocket, rtp, found"):
        read("asterisk: {password: x, media: morse}" + CONTEXTS, tmp_path / "a.yaml", {})


def test_a_vendor_is_one_folder_and_no_edit_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cordboard import vendors
    from cordboard.agent_api.provider import tool_user

    folder = tmp_path / "acme_of_tests"
    folder.mkdir()
    (folder / "__init__.py").write_text(ACME)
    monkeypatch.setattr(vendors, "__path__", [*vendors.__path__, str(tmp_path)])
    plugins = collect(built_in(), ())
    text = "default_provider: a\nproviders: {a: {type: acme, base_url: 'http://a.test'}}" + CONTEXTS
    loaded = read(text, tmp_path / "a.yaml", {}, plugins)
    assert [str(problem).partition(": ")[2] for problem in loaded.problems] == [
        "providers.a: acme has no key: set ACME_KEY, or api_key"
    ]
    assert tool_user(plugins, "acme").payload.max_bytes == 4_096
    with pytest.raises(ConfigError, match="did you mean acme"):
        read("providers: {a: {type: acmee}}" + CONTEXTS, tmp_path / "a.yaml", {}, plugins)


ACME = """
from typing import Literal
from cordboard.agent_api.provider import Provider
from cordboard.config.sections.realtime import RealtimeProvider
from cordboard.tools.payload import PayloadLimits

class Acme(RealtimeProvider):
    key_variables = ("ACME_KEY",)
    type: Literal["acme"]

PROVIDERS = (Provider("acme", "agent", Acme, print, payload=PayloadLimits(4_096)),)
"""

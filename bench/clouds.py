"""Short spoken calls with the realtime providers, by real keys or against the emulators.

    scripts/try-clouds [--emulated] [--yes] [PROVIDER...]

Each scene is one call of a simulated caller to an engine in this process. The engine reaches the
service through a proxy of the test kit, which can cut the connection. The report has for each
scene a verdict, the words of both sides, latencies and troubles; ledgers and recordings lie beside
it. A scene is `wrong` if an expectation was disappointed, and `unsure` if it could not be judged.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from bench.engine_process import ROOT
from cordboard.agent_api.workers import Workers
from cordboard.calls.events import (
    Answering,
    BargedIn,
    LedgerEvent,
    Offered,
    ToolAnswered,
    ToolCalled,
    ToolFiller,
    Trouble,
)
from cordboard.calls.history import CallHistory, find, read_lines
from cordboard.config.load import LoadedConfig, load
from cordboard.observe.logging import configure
from cordboard.vendors.local.models import OfflineModels, load_offline_models
from cordboard_testkit.audiosocket_caller import SimulatedCaller
from cordboard_testkit.caller_voice import render_speech
from cordboard_testkit.emulators.deepgram.agent import DeepgramAgentEmulator
from cordboard_testkit.emulators.elevenlabs.agent import ElevenLabsEmulator
from cordboard_testkit.emulators.elevenlabs.workspace import new_agent
from cordboard_testkit.emulators.gemini.live import GeminiLiveEmulator
from cordboard_testkit.emulators.openai.live import OpenAILiveEmulator
from cordboard_testkit.emulators.openai.realtime import OpenAIRealtimeEmulator
from cordboard_testkit.emulators.script import Answer, Script, Use
from cordboard_testkit.emulators.speech import Rendered
from cordboard_testkit.http_proxy import HttpProxy
from cordboard_testkit.simulated_call import Bench, bench

KEY, AGENT = "key-of-the-emulators", "agent_emulated"
SCENE_SECONDS = 60
"""Limit of a call. It is what the estimate of the costs is made of."""
STOPS_WITHIN_MS = 1500
SLOW_SECONDS = 6
PAUSE_MS = 1500
"""Silence after which the agent has finished."""
GREETING = "Welcome to the trial desk."
STORY = (
    "Once upon a time there was a telephone exchange on a hill, and every evening the operator "
    "plugged the last caller of the valley into the line to the city, and then she went home."
)
PROMPT = (
    "You are the trial desk of a shop, on the telephone. Speak English. Answer in one short "
    "sentence, except when the caller wants a story: then tell one of at least a hundred words. "
    "The shop opens at nine in the morning. For the state of an order call order_status, for the "
    "place of the parcel call find_parcel, and say what they return. When the caller says goodbye "
    "call hangup_call."
)
Found = TypeVar("Found")


async def order_status(number: int) -> str:
    """Return the state of an order by its number."""
    return f"Order {number} arrives on Friday."


async def find_parcel() -> str:
    """Find the place where the caller's parcel is now."""
    await asyncio.sleep(SLOW_SECONDS)
    return "The parcel is in Lisbon."


@dataclass(frozen=True, slots=True)
class Cloud:
    """One provider of the trial."""

    variable: str
    """Environment variable of the key."""
    section: dict[str, Any]
    emulator: Callable[[Script, Rendered], Any]
    path: str = ""
    """Path of the emulator's address."""
    scenes: tuple[str, ...] = ()
    """The scenes that are played; empty: all."""
    cuts: bool = True
    """False if the service stops by itself, and has no record that the engine could cut."""


def _gemini(script: Script, voice: Rendered) -> GeminiLiveEmulator:
    return GeminiLiveEmulator(script, speaker=voice, key=KEY, secure=False, pace=2.0)


CLOUDS: Mapping[str, Cloud] = {
    "openai_realtime": Cloud(
        "OPENAI_API_KEY",
        {"type": "openai_realtime"},
        lambda script, voice: OpenAIRealtimeEmulator(script, speaker=voice, key=KEY, speed=2.0),
        "/v1",
    ),
    "openai_live": Cloud(
        "OPENAI_API_KEY",
        {"type": "openai_live"},
        lambda script, voice: OpenAILiveEmulator(script, speaker=voice, key=KEY, speed=1.0),
        "/v1",
        cuts=False,
    ),
    "deepgram_agent": Cloud(
        "DEEPGRAM_API_KEY",
        {"type": "deepgram_agent"},
        lambda script, voice: DeepgramAgentEmulator(script, speaker=voice, key=KEY),
    ),
    "gemini_live": Cloud("GEMINI_API_KEY", {"type": "gemini_live"}, _gemini),
    "gemini_live_v1": Cloud(
        "GEMINI_API_KEY", {"type": "gemini_live", "api_version": "v1"}, _gemini, "", ("greeting",)
    ),
    "elevenlabs_agent": Cloud(
        "ELEVENLABS_API_KEY",
        {"type": "elevenlabs_agent", "agent_id": "${ELEVENLABS_AGENT_ID}"},
        lambda script, voice: ElevenLabsEmulator(
            script, speaker=voice, key=KEY, agent=new_agent(AGENT), faster=2.0
        ),
    ),
}


@dataclass(slots=True)
class Result:
    """The report of one scene. `checks`: what was expected → True, False, or None for unknown."""

    scene: str
    checks: dict[str, bool | None] = field(default_factory=dict)
    ms: dict[str, int] = field(default_factory=dict)
    """Latencies."""
    words: list[str] = field(default_factory=list)
    """Both sides, by the service's own transcript."""
    by_ear: list[str] = field(default_factory=list)
    """The agent's utterances, by the offline recogniser."""
    troubles: list[str] = field(default_factory=list)
    problem: str = ""
    ledger: str = ""

    @property
    def verdict(self) -> str:
        if self.problem or False in self.checks.values():
            return "wrong"
        return "unsure" if None in self.checks.values() or not self.checks else "right"


class Call:
    """One call of a scene."""

    def __init__(
        self, line: SimulatedCaller, sounds: Mapping[str, Any], proxy: HttpProxy, *, cuts: bool
    ) -> None:
        self.line, self.proxy, self.cuts = line, proxy, cuts
        self.result = Result("")
        self.events: list[LedgerEvent] = []
        self.changed = asyncio.Event()
        self._sounds = sounds

    def said(self, since: int = 0) -> str:
        """The agent's words since a number of events, as the service tells them."""
        return " ".join(e.text for e in self.events[since:] if isinstance(e, Answering))

    def of(self, kind: type[Found]) -> list[Found]:
        return [event for event in self.events if isinstance(event, kind)]

    async def event(self, look: Callable[[], Found | None]) -> Found:
        """Wait until the ledger has something."""
        while (found := look()) is None:
            self.changed.clear()
            await self.changed.wait()
        return found

    async def greeted(self) -> None:
        assert self.line.answered_at is not None
        first = await self.line.hear_speech(SCENE_SECONDS, after=self.line.answered_at)
        self.result.ms["greeting"] = round((first - self.line.answered_at) * 1000)
        await self.line.hear_silence(PAUSE_MS, SCENE_SECONDS)

    async def say(self, words: str) -> float:
        self.line.say(self._sounds[words])
        return await self.line.said()

    async def ask(self, words: str, expected: str) -> str:
        """Ask, listen to the end of the answer, and check its words; returns them."""
        before, ended = len(self.events), await self.say(words)
        first = await self.line.hear_speech(SCENE_SECONDS, after=ended)
        self.result.ms["answer"] = round((first - ended) * 1000)
        await self.line.hear_silence(PAUSE_MS, SCENE_SECONDS)
        answer = self.said(before)
        found = re.search(expected, answer, re.I) is not None
        self.result.checks[f"the answer has {expected!r}"] = found if answer else None
        return answer

    async def ask_by_tool(self, words: str, name: str, expected: str) -> ToolCalled | None:
        """The same for an answer that a tool gives; returns the tool call."""
        ended = await self.say(words)
        await self.event(lambda: next(iter(self.of(ToolAnswered)), None))
        self.result.ms["tool"] = round((time.monotonic() - ended) * 1000)
        await self.event(lambda: re.search(expected, self.said(), re.I))
        await self.line.hear_silence(PAUSE_MS, SCENE_SECONDS)
        self.result.checks[f"the answer has {expected!r}"] = True
        called = [call for call in self.of(ToolCalled) if call.name == name]
        self.result.checks[f"{name} is called once"] = len(called) == 1
        return called[0] if called else None


OPEN, ORDER, PARCEL = "When do you open?", "What is the state of order 42?", "Where is my parcel?"
TELL, STOP = "Please tell me a long story.", "Excuse me, when do you open?"
REMEMBER, RECALL = "My code word is pelican. Please remember it.", "What is my code word?"
BYE = "Thank you, that was all. Goodbye."


async def greeting(call: Call) -> None:
    await call.greeted()
    said = call.said()
    call.result.checks["the greeting is said"] = "trial desk" in said.lower() if said else None


async def question(call: Call) -> None:
    await call.greeted()
    await call.ask(OPEN, r"\b(nine|9)\b")


async def barge_in(call: Call) -> None:
    await call.greeted()
    ended = await call.say(TELL)
    await call.line.hear_speech(SCENE_SECONDS, after=ended)
    await asyncio.sleep(2)  # of the story
    began, checks = time.monotonic(), call.result.checks
    before = len(call.events)
    told = await call.say(STOP)
    onset = await call.line.spoke_after(began)
    await call.line.hear_speech(SCENE_SECONDS, after=told)
    await call.line.hear_silence(PAUSE_MS, SCENE_SECONDS)
    story = [part for part in call.line.heard_segments(join=1.0) if part.start <= onset][-1]
    cuts = call.of(BargedIn)
    checks["the story was still being told"] = story.end > onset or bool(cuts) or None
    call.result.ms["stop"] = max(0, round((story.end - onset) * 1000))
    checks[f"silent within {STOPS_WITHIN_MS} ms"] = call.result.ms["stop"] <= STOPS_WITHIN_MS
    if cuts:
        call.result.ms["heard of the story"] = cuts[0].heard_ms
    if call.cuts:
        checks["the record is cut"] = (bool(cuts) and cuts[0].heard_ms > 0) or None
    new = call.said(before)
    checks["the new question is answered"] = bool(re.search(r"\b(nine|9)\b", new, re.I)) or None


async def tool(call: Call) -> None:
    await call.greeted()
    called = await call.ask_by_tool(ORDER, "order_status", "Friday")
    call.result.checks["the argument is right"] = called and called.arguments == {"number": 42}


async def slow_tool(call: Call) -> None:
    await call.greeted()
    await call.ask_by_tool(PARCEL, "find_parcel", "Lisbon")
    events = call.events
    asked, told = (
        next((i for i, e in enumerate(events) if isinstance(e, kind)), 0)
        for kind in (ToolCalled, ToolAnswered)
    )
    bridged = any(isinstance(e, ToolFiller) for e in events[asked:told])
    talked = [e.text for e in events[asked:told] if isinstance(e, Answering)]
    call.result.checks["a filler bridges the wait"] = bridged or (None if talked else False)
    call.result.checks["nothing is guessed meanwhile"] = "lisbon" not in str(talked).lower()


async def drop(call: Call) -> None:
    await call.greeted()
    await call.ask(REMEMBER, ".")
    cut = time.monotonic()
    call.result.checks["a connection was cut"] = call.proxy.cut() > 0
    async with asyncio.timeout(15):
        await call.event(
            lambda: next((e for e in call.of(Trouble) if e.where == "agent_reconnected"), None)
        )
    call.result.ms["reconnected"] = round((time.monotonic() - cut) * 1000)
    await call.ask(RECALL, "pelican")


async def goodbye(call: Call) -> None:
    await call.greeted()
    await call.say(BYE)
    end = await call.line.ended(SCENE_SECONDS)
    call.result.checks["the agent hangs up"] = end.by == "them"
    call.result.checks["by hangup_call"] = any(e.name == "hangup_call" for e in call.of(ToolCalled))


NINE = "We open at nine in the morning."
SCENES: Mapping[str, tuple[Callable[[Call], Awaitable[None]], Script]] = {
    "greeting": (greeting, Script()),
    "question": (question, Script((Answer(NINE, heard=OPEN),))),
    "barge-in": (barge_in, Script((Answer(STORY, heard=TELL), Answer(NINE, heard=STOP)))),
    "tool": (tool, Script((Answer(asks=(Use("order_status", {"number": 42}),), heard=ORDER),))),
    "slow tool": (slow_tool, Script((Answer(asks=(Use("find_parcel"),), heard=PARCEL),))),
    "drop and resume": (
        drop,
        Script(
            (
                Answer("I will remember it.", heard=REMEMBER),
                Answer("It is pelican.", heard=RECALL),
            )
        ),
    ),
    "goodbye": (goodbye, Script((Answer(asks=(Use("hangup_call"),), heard=BYE),))),
}
CALLER = (OPEN, ORDER, PARCEL, TELL, STOP, REMEMBER, RECALL, BYE)
AGENT_SAYS = (GREETING, NINE, STORY, "Order 42 arrives on Friday.", "The parcel is in Lisbon.")
AGENT_SAYS += ("I will remember it.", "It is pelican.")


class Trial:
    """The scenes of one provider after the other."""

    def __init__(self, folder: Path, models: OfflineModels, *, emulated: bool) -> None:
        self.folder, self.emulated = folder, emulated
        self._models = models
        self._sounds: dict[str, Any] = {}
        self._voice = Rendered({})

    async def prepare(self) -> None:
        """Render the caller's sentences, and those of the emulators."""
        self._sounds = {text: await render_speech(self._models.voice, text) for text in CALLER}
        if self.emulated:
            self._voice = await Rendered.of(self._models.voice, AGENT_SAYS)

    async def provider(self, name: str, progress: Callable[[str], None]) -> list[Result]:
        """Play a provider's scenes. A failure is the result of its scene, or of all."""
        folder, cloud, results = self.folder / name, CLOUDS[name], []
        try:
            async with AsyncExitStack() as stack:
                loaded = self._configured(name, stack)
                proxy = await stack.enter_async_context(self._led_through_a_proxy())
                told: list[Callable[[str, LedgerEvent], None]] = []
                listener = lambda call, _, event: [take(call, event) for take in told]  # noqa: E731
                async with bench(
                    loaded.config,
                    "desk",
                    "audiosocket",
                    folder / "calls",
                    listener,
                    sheds_load=False,
                ) as place:
                    for scene in cloud.scenes or SCENES:
                        result = await self._scene(name, scene, place, proxy, told)
                        results.append(result)
                        progress(f"{name}: {scene}: {result.verdict} {result.problem}")
        except Exception as error:  # noqa: BLE001 - the other providers go on
            results.append(Result("start", problem=f"{type(error).__name__}: {error}"))
            progress(f"{name}: {results[-1].problem}")
        return results

    async def _scene(
        self, name: str, scene: str, place: Bench, proxy: HttpProxy, told: list[Any]
    ) -> Result:
        play, script = SCENES[scene]
        async with self._service(CLOUDS[name], script, proxy) as service:
            line = SimulatedCaller("127.0.0.1", place.engine.audiosocket_port)
            call = Call(line, self._sounds, proxy, cuts=CLOUDS[name].cuts)
            result, ids = call.result, list[str]()
            result.scene = scene

            def take(call_id: str, event: LedgerEvent) -> None:
                ids.extend([call_id] if isinstance(event, Offered) else [])
                call.events.append(event)
                call.changed.set()

            told[:] = [take]
            try:
                async with asyncio.timeout(SCENE_SECONDS), line:
                    await play(call)
            except Exception as error:  # noqa: BLE001 - every scene has an outcome of its own
                result.problem = f"{type(error).__name__}: {error}".rstrip(": ")
            await place.engine.calls_recorded()
            if service is not None:
                result.checks["the emulator refuses nothing"] = not service.violations
                result.troubles += [f"refused: {why}" for why in service.violations]
        await self._keep(call, self.folder / name, ids)
        return result

    async def _keep(self, call: Call, folder: Path, ids: list[str]) -> None:
        """Write the recording, and what the ledger and the ear have heard into the result."""
        result = call.result
        call.line.write_wav(folder / f"{result.scene.replace(' ', '-')}.wav")
        for part in call.line.utterances_heard():
            understood = await self._models.recogniser.transcribe(part.tobytes())
            result.by_ear.append(understood.text)
        result.troubles += [f"{e.where}: {e.message}" for e in call.of(Trouble)]
        path = find(folder / "calls", ids[0]) if ids else None
        if path is not None:
            history = CallHistory.from_lines(read_lines(path))
            result.words = [f"{who}: {text}" for who, text in history.transcript()]
            result.ledger = str(path.relative_to(self.folder))

    @asynccontextmanager
    async def _service(self, cloud: Cloud, script: Script, proxy: HttpProxy) -> AsyncIterator[Any]:
        """The emulator of a scene, behind the proxy; None in front of the real service."""
        if not self.emulated:
            yield None
            return
        async with cloud.emulator(script, self._voice) as service:
            proxy.service_port = urlsplit(service.url).port
            yield service

    @asynccontextmanager
    async def _led_through_a_proxy(self) -> AsyncIterator[HttpProxy]:
        async with HttpProxy() as proxy:
            names = ("HTTPS_PROXY", "HTTP_PROXY")
            os.environ.update(dict.fromkeys(names, proxy.url))
            try:
                yield proxy
            finally:
                for name in names:
                    del os.environ[name]

    def _configured(self, name: str, stack: AsyncExitStack) -> LoadedConfig:
        """Write the configuration of a provider, without its key, and load it; open its log."""
        cloud, folder = CLOUDS[name], self.folder / name
        folder.mkdir(parents=True)
        section, environ = dict(cloud.section), dict(os.environ)
        if self.emulated:
            # No name of the real service, so that nothing can reach it.
            section |= {"base_url": f"http://cloud.invalid{cloud.path}"}
            section |= {"api_key": f"${{{cloud.variable}}}"}
            environ |= {cloud.variable: KEY, "ELEVENLABS_AGENT_ID": AGENT}
        function = {"kind": "python", "effects": "read_only"}
        slow = {"timeout_ms": 20_000, "slow_response_threshold_ms": 1_500}
        tree = {
            "providers": {"cloud": section},
            "contexts": {
                "desk": {
                    "prompt": PROMPT,
                    "greeting": GREETING,
                    "provider": "cloud",
                    "tools": ["order_status", "find_parcel", "hangup_call"],
                    "budget": {"max_minutes": SCENE_SECONDS / 60},
                }
            },
            "tools": {
                "order_status": function | {"function": "bench.clouds:order_status"},
                "find_parcel": function | slow | {"function": "bench.clouds:find_parcel"},
            },
        }
        path = folder / "ai-agent.yaml"
        path.write_text(json.dumps(tree, indent=1))  # JSON is YAML
        loaded = load(path, environ)
        log = stack.enter_context((folder / "engine.log").open("w"))
        configure(json=False, secrets=loaded.secrets, stream=log)
        if cloud.section["type"] == "elevenlabs_agent" and not self.emulated:
            command = [sys.executable, "-m", "cordboard", "elevenlabs", "sync", "cloud", "-c"]
            subprocess.run([*command, str(path)], check=True, cwd=ROOT)
        return loaded


def answers(results: Mapping[str, list[Result]]) -> list[tuple[str, str]]:
    """Return the open questions about the services, each with what the calls tell about it."""
    verdicts = {
        (name, one.scene): one.problem or one.verdict
        for name, all_ in results.items()
        for one in all_
    }

    def of(name: str, scene: str) -> str:
        return verdicts.get((name, scene), verdicts.get((name, "start"), "not tried"))

    return [
        ("Gemini: does v1beta serve Live?", of("gemini_live", "greeting")),
        ("Gemini: does v1 serve Live? (`gemini_live_v1`)", of("gemini_live_v1", "greeting")),
        ("Gemini: is nothing guessed while a slow tool runs?", of("gemini_live", "slow tool")),
        ("ElevenLabs: is our `source` accepted?", of("elevenlabs_agent", "greeting")),
        ("Azure realtime with the key as Bearer; a busy OpenAI", "not tried by this programme"),
    ]


def write_report(folder: Path, results: Mapping[str, list[Result]], *, emulated: bool) -> None:
    """Write `report.json` and `report.md`."""
    told = [] if emulated else answers(results)  # an emulator proves nothing about its service
    document = {
        "emulated": emulated,
        "providers": {
            name: [asdict(one) | {"verdict": one.verdict} for one in all_]
            for name, all_ in results.items()
        },
        "questions": dict(told),
    }
    (folder / "report.json").write_text(json.dumps(document, indent=1) + "\n")
    lines = [f"# Calls with {'emulators' if emulated else 'real services'}", ""]
    for name, all_ in results.items():
        lines += [
            f"## {name}",
            "",
            "| scene | verdict | ms | not as expected |",
            "|---|---|---|---|",
        ]
        for one in all_:
            missed = [f"{text}: {ok}" for text, ok in one.checks.items() if ok is not True]
            cells = (
                f"[{one.scene}]({one.ledger})" if one.ledger else one.scene,
                one.verdict,
                ", ".join(f"{what} {ms}" for what, ms in one.ms.items()),
                "; ".join(filter(None, [one.problem, *missed])).replace("|", "\\|"),
            )
            lines.append(f"| {' | '.join(cells)} |")
        for one in all_:
            lines += ["", f"### {name}, {one.scene}", "", *(f"- {line}" for line in one.words)]
            lines += [f"- heard by the offline recogniser: {text}" for text in one.by_ear]
            lines += [f"- trouble: {trouble}" for trouble in one.troubles]
        lines.append("")
    if told:
        lines += ["## Questions", "", *(f"- {what} {answer}" for what, answer in told), ""]
    (folder / "report.md").write_text("\n".join(lines))


def without_keys(folder: Path, keys: list[str]) -> None:
    """Take keys out of all texts of a folder: a service may repeat one in a message."""
    for path in folder.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for key in filter(None, keys):
            if key.encode() in content:
                content = content.replace(key.encode(), b"[key]")
                path.write_bytes(content)


async def run(folder: Path, names: list[str], *, emulated: bool) -> dict[str, list[Result]]:
    """Try the providers; everything is written into the folder."""
    results: dict[str, list[Result]] = {}
    keys = [KEY, *(os.environ.get(cloud.variable, "") for cloud in CLOUDS.values())]
    workers = Workers()
    try:
        models = await load_offline_models(workers)
        trial = Trial(folder, models, emulated=emulated)
        await trial.prepare()
        for name in names:
            results[name] = await trial.provider(name, lambda line: print(line, flush=True))
        models.close()
    finally:
        await workers.close()
        write_report(folder, results, emulated=emulated)
        without_keys(folder, keys)
    return results


def chosen(wanted: list[str], *, emulated: bool) -> list[str]:
    """Return the providers that can be tried; print why others cannot."""
    names = []
    for name in wanted or CLOUDS:
        cloud = CLOUDS[name]
        needed = [cloud.variable, *re.findall(r"\$\{(\w+)\}", str(cloud.section))]
        missing = [variable for variable in needed if not os.environ.get(variable)]
        if missing and not emulated:
            print(f"{name}: left out, {' and '.join(missing)} not in the environment")
        else:
            names.append(name)
    return names


def main() -> None:
    parser = argparse.ArgumentParser(prog="try-clouds", description=__doc__)
    parser.add_argument("providers", nargs="*", metavar="PROVIDER", help=", ".join(CLOUDS))
    parser.add_argument("--emulated", action="store_true", help="no service, no key, no costs")
    parser.add_argument("--yes", action="store_true", help="spend without asking")
    parser.add_argument("--per-minute", type=float, default=0.3, metavar="PRICE",
                        help="for the estimate; see your contract (default 0.30)")  # fmt: skip
    parser.add_argument("--folder", type=Path, help="default: var/try-clouds/DATE")
    options = parser.parse_args()
    if unknown := sorted(set(options.providers) - CLOUDS.keys()):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(CLOUDS)}")
    if any(os.environ.get(name) for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")):
        parser.error(
            "it is a proxy itself and cannot work behind one: unset HTTPS_PROXY, ALL_PROXY"
        )
    names = chosen(options.providers, emulated=options.emulated)
    if not names:
        parser.error("no provider can be tried")
    if not options.emulated:
        minutes = sum(len(CLOUDS[n].scenes or SCENES) for n in names) * SCENE_SECONDS / 60
        print(
            f"At most {minutes:.0f} minutes of calls with {', '.join(names)}: at most "
            f"{minutes * options.per_minute:.2f}, if a minute costs {options.per_minute:.2f}."
        )
        if "elevenlabs_agent" in names:
            print("The tools of the trial are written into the agent ELEVENLABS_AGENT_ID.")
        if not options.yes and input("Go on? [y/N] ").strip().lower() not in ("y", "yes"):
            sys.exit(1)
    date = datetime.datetime.now().astimezone().strftime("%Y-%m-%d-%H%M%S")
    folder = options.folder or ROOT / "var" / "try-clouds" / date
    folder.mkdir(parents=True)
    results = asyncio.run(run(folder, names, emulated=options.emulated))
    print(folder / "report.md")
    sys.exit(any(one.verdict != "right" for all_ in results.values() for one in all_))


if __name__ == "__main__":
    main()

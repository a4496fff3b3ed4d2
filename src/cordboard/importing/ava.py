"""An AVA installation as our configuration, with what has no counterpart; and a dialplan for it.

Pure: `import_ava` takes what `ava_files` has read. Facts about AVA are from its source at v7.5.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cordboard.importing.ava_contexts import Contexts, contexts_of
from cordboard.importing.ava_files import Installation
from cordboard.importing.ava_keys import MEDIA, SECTIONS
from cordboard.importing.ava_providers import Providers
from cordboard.importing.ava_tools import Tools
from cordboard.importing.names import Names
from cordboard.importing.result import Imported, Part
from cordboard.telephony.asterisk.dialplan import dialplan


def import_ava(found: Installation) -> Imported:
    """Translate an installation. Never raises for what the files hold."""
    result = Imported()
    _Import(Part(found.tree, (), result), found, result, Names(result)).everything()
    return result


def dialplan_of(tree: Mapping[str, Any]) -> str:
    """Return the dialplan for contexts and routes that our schema has taken."""
    place = "FreePBX: extensions_custom.conf, and from-internal-custom in place of from-internal"
    return f"; extensions.conf ({place})\n" + dialplan(tree["contexts"], tree.get("routes", {}))


@dataclass(slots=True)
class _Import:
    root: Part
    found: Installation
    result: Imported
    names: Names

    def everything(self) -> None:
        """Fill `result`, in the order of its file."""
        tree = self.result.tree
        tree |= {"default_context": "", "default_provider": ""}
        self._telephony()
        tree |= {"providers": {}, "contexts": {}, "tools": {}, "mcp": {"enabled": True}}
        contexts = contexts_of(self.root, self.found, self.result)
        providers = Providers(self.root, self.result, self.names, self.found.variables)
        used = {context.text(key) for _, context in contexts for key in ("provider", "pipeline")}
        default = self.root.text("default_provider")
        providers.read(used | {default})
        self._defaults(default)
        tools = Tools(self.root, self.result, self.names)
        tools.read_servers()
        tools.read()
        reader = Contexts(self.root, self.result, self.names, tools, providers)
        for name, context in contexts:
            reader.read(name, context)
        for (tool, reason), names in reader.missing.items():
            self.result.left.append((f"tool {tool} (of {', '.join(names)})", reason))
        self._default_context()
        if not tree["tools"]:
            del tree["tools"]
        if not tree["mcp"].get("servers"):
            del tree["mcp"]
        for key, reason in SECTIONS.items():
            self.root.leave(key, reason)
        llm = self.root.part("llm")
        llm.skip(("prompt", "initial_greeting"))
        llm.rest()
        self.root.skip(("contexts", "providers", "pipelines"))
        self.root.rest()
        self.result.left += [(line, "AVA takes the last one") for line in self.found.duplicates]
        self.result.left += [
            (f"agent {slug}", "switched off in the database") for slug in self.found.inactive
        ]

    def _telephony(self) -> None:
        transport = self.root.text("audio_transport").lower() or "audiosocket"
        media = MEDIA.get(transport, "audiosocket")
        asterisk = self.root.part("asterisk")
        self.result.tree["asterisk"] = {
            "url": "${ASTERISK_ARI_SCHEME:-http}://${ASTERISK_HOST:-127.0.0.1}"
            ":${ASTERISK_ARI_PORT:-8088}",
            "username": "${ASTERISK_ARI_USERNAME:-asterisk}",
            "password": "${ASTERISK_ARI_PASSWORD}",
            "app": "cordboard",
            "media": media,
        }
        words = "The variables of AVA's .env. Its application stays free, so both can run at once."
        self.result.comment(("asterisk",), words)
        asterisk.skip(("app_name",))
        asterisk.rest("the engine keeps and restores the connection by itself")
        socket = self.root.part("audiosocket")
        found = socket.copy(("host", "port", "advertise_host"))
        if (variable := "AUDIOSOCKET_ADVERTISE_HOST") in self.found.variables:
            found["advertise_host"] = f"${{{variable}:-127.0.0.1}}"
        if found:
            self.result.tree["audiosocket"] = found
        codec = socket.text("format")
        external = self.root.part("external_media")
        if media == "rtp":
            rtp = external.copy({"rtp_host": "host", "advertise_host": "advertise_host"})
            if (variable := "EXTERNAL_MEDIA_ADVERTISE_HOST") in self.found.variables:
                rtp["advertise_host"] = f"${{{variable}:-127.0.0.1}}"
            first, _, last = external.text("port_range").partition(":")
            if first.isdecimal() and last.isdecimal() and len(first + last) < 12:
                rtp |= {"first_port": int(first), "last_port": int(last)}
            self.result.tree["rtp"] = rtp
            codec = external.text("codec")
            external.skip(("direction", "format", "rtp_port", "sample_rate"))
            external.rest("each call's port takes packets from its own channel only")
        if codec in ("ulaw", "slin16") and (codec == "slin16") == (media == "audiosocket"):
            self.result.tree["asterisk"]["codec"] = codec
        socket.skip(("format",))
        socket.rest()
        health = self.root.part("health")
        if copied := health.copy(("host", "port")):
            self.result.tree["health"] = copied
        health.rest()
        self.root.skip(("external_media",))
        self._profiles()

    def _profiles(self) -> None:
        profiles = self.root.part("profiles")
        default = profiles.text("default")
        names = [name for name, _ in profiles.parts() if name != "default"]
        if names:
            reason = "formats are negotiated with Asterisk and the provider for each call; "
            reason += "`asterisk.codec` fixes the line's"
            self.result.left.append((f"profiles ({', '.join(names)}; default {default})", reason))

    def _defaults(self, default: str) -> None:
        """Choose the provider of contexts that name none: an unknown one is a pipeline's name."""
        tree, known = self.result.tree, self.names.of("provider")
        active = self.root.text("active_pipeline")
        if not tree["providers"]:
            tree["providers"]["local"] = {"type": "pipeline"}
            self.result.comment(("providers", "local"), "The offline agent: no other was found.")
            known["local"] = "local"
        ours = known.get(default) or known.get(active) or next(iter(tree["providers"]))
        if default and default not in known:
            self.result.left.append(("default_provider", f"there is no {default}; {ours} here"))
        tree["default_provider"] = ours

    def _default_context(self) -> None:
        names = self.names.of("context")
        default = names.get(self.found.default_agent) or names.get("default")
        first = next(iter(self.result.tree["contexts"]))
        self.result.tree["default_context"] = default or first

"""An AVA installation as our configuration, with what has no counterpart; and a dialplan for it.

Pure: `import_ava` takes what `ava_files` has read. Facts about AVA are from its source at v7.5.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cordboard.importing.ava_contexts import Contexts, contexts_of
from cordboard.importing.ava_files import Installation
from cordboard.importing.ava_keys import MEDIA, SECTIONS
from cordboard.importing.ava_providers import Providers
from cordboard.importing.ava_tools import Tools
from cordboard.importing.result import Imported, Part
from cordboard.telephony.asterisk.dialplan import dialplan


def import_ava(found: Installation) -> Imported:
    """Translate an installation. Never raises for what the files hold."""
    result = Imported()
    root, tree = Part(found.tree, (), result), result.tree
    tree |= {"default_context": "", "default_provider": ""}
    _telephony(root, found.variables, result)
    tree |= {"providers": {}, "contexts": {}, "tools": {}, "mcp": {"enabled": True}}
    contexts = contexts_of(root, found, result)
    providers = Providers(root, result, found.variables)
    used = {context.text(key) for _, context in contexts for key in ("provider", "pipeline")}
    providers.read(used | {root.text("default_provider")})
    _default_provider(root, result)
    tools = Tools(root, result)
    tools.read_servers()
    tools.read()
    reader = Contexts(root, result, tools, providers)
    for name, context in contexts:
        reader.read(name, context)
    for (tool, reason), names in reader.missing.items():
        result.left.append((f"tool {tool} (of {', '.join(names)})", reason))
    ours = result.names["context"]
    default = ours.get(found.default_agent) or ours.get("default")
    tree["default_context"] = default or next(iter(tree["contexts"]))
    if not tree["tools"]:
        del tree["tools"]
    if not tree["mcp"].get("servers"):
        del tree["mcp"]
    root.leave(SECTIONS)
    llm = root.part("llm")
    llm.skip(("prompt", "initial_greeting"))
    llm.rest()
    root.rest()
    result.left += [(line, "AVA takes the last one") for line in found.duplicates]
    result.left += [(f"agent {slug}", "switched off in the database") for slug in found.inactive]
    return result


def dialplan_of(tree: Mapping[str, Any]) -> str:
    """Return the dialplan for contexts and routes that our schema has taken."""
    place = "FreePBX: extensions_custom.conf, and from-internal-custom in place of from-internal"
    return f"; extensions.conf ({place})\n" + dialplan(tree["contexts"], tree.get("routes", {}))


def _telephony(root: Part, variables: frozenset[str], result: Imported) -> None:
    def advertised(variable: str) -> dict[str, str]:
        return {"advertise_host": f"${{{variable}:-127.0.0.1}}"} if variable in variables else {}

    media = MEDIA.get(root.text("audio_transport").lower(), "audiosocket")
    result.tree["asterisk"] = {
        "url": "${ASTERISK_ARI_SCHEME:-http}://${ASTERISK_HOST:-127.0.0.1}"
        ":${ASTERISK_ARI_PORT:-8088}",
        "username": "${ASTERISK_ARI_USERNAME:-asterisk}",
        "password": "${ASTERISK_ARI_PASSWORD}",
        "app": "cordboard",
        "media": media,
    }
    words = "The variables of AVA's .env. Its application stays free, so both can run at once."
    result.comments["asterisk",] = words
    asterisk = root.part("asterisk")
    asterisk.skip(("app_name",))
    asterisk.rest("the engine keeps and restores the connection by itself")
    socket, external = root.part("audiosocket"), root.part("external_media")
    sections = {
        "audiosocket": socket.copy(("host", "port", "advertise_host"))
        | advertised("AUDIOSOCKET_ADVERTISE_HOST")
    }
    codec = socket.text("format")
    socket.rest()
    if media == "rtp":
        sections["rtp"] = external.copy({"rtp_host": "host", "advertise_host": "advertise_host"})
        sections["rtp"] |= advertised("EXTERNAL_MEDIA_ADVERTISE_HOST")
        first, _, last = external.text("port_range").partition(":")
        if first.isdecimal() and last.isdecimal() and len(first + last) < 12:
            sections["rtp"] |= {"first_port": int(first), "last_port": int(last)}
        codec = external.text("codec")
        external.skip(("direction", "format", "rtp_port", "sample_rate"))
        external.rest("each call's port takes packets from its own channel only")
    if codec in ("ulaw", "slin16") and (codec == "slin16") == (media == "audiosocket"):
        result.tree["asterisk"]["codec"] = codec
    health = root.part("health")
    sections["health"] = health.copy(("host", "port"))
    health.rest()
    result.tree |= {name: section for name, section in sections.items() if section}
    profiles = root.part("profiles")
    default = profiles.text("default")
    if names := [name for name, _ in profiles.parts()]:
        reason = "formats are negotiated with Asterisk and the provider for each call; "
        reason += "`asterisk.codec` fixes the line's"
        result.left.append((f"profiles ({', '.join(names)}; default {default})", reason))


def _default_provider(root: Part, result: Imported) -> None:
    """Choose the provider of contexts that name none: an unknown one is a pipeline's name."""
    tree, known = result.tree, result.names["provider"]
    default, active = root.text("default_provider"), root.text("active_pipeline")
    if not tree["providers"]:
        tree["providers"]["local"] = {"type": "pipeline"}
        result.comments["providers", "local"] = "The offline agent: no other was found."
        known["local"] = "local"
    ours = known.get(default) or known.get(active) or next(iter(tree["providers"]))
    if default and default not in known:
        result.left.append(("default_provider", f"there is no {default}; {ours} here"))
    elif default and active not in ("", default):
        reason = f"AVA takes default_provider ({default}) before it; nearest: "
        result.left.append(("active_pipeline", reason + "`contexts.<name>.provider`"))
    tree["default_provider"] = ours

"""What the hotlines are configured with: the shipped files, and desks of the tests' own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from cordboard_testkit.asterisk import AsteriskInstance

REPOSITORY = Path(__file__).parents[2]
TOKEN = "open-sesame-open-sesame"
"""The admin token of every hotline."""
ORDER_DESK: dict[str, Any] = {
    "greeting": "Order desk.",
    "tools": ["hangup_call", "check_order", "place_order", "opening_times"],
    "rules": {
        "intents": {
            "check_order": {
                "sentences": ["[please] (check|look up) my order [please]"],
                "tool": "check_order",
            },
            "place_order": {
                "sentences": ["[please] (place|send) (my|the|an) order [now|please]"],
                "tool": "place_order",
                "arguments": {"seconds": 2},
            },
            "opening_times": {
                "sentences": ["[please] [tell me] [what are] [the|your] opening times"],
                "tool": "opening_times",
            },
        }
    },
}
"""A context on a server that fails as asked: `check_order` only reads and never answers,
`place_order` changes the world and takes 2 s."""

PATIENT_DESK: dict[str, Any] = {
    **ORDER_DESK,
    "tools": ["hangup_call", "look_long"],
    "silence": {
        "filler_after_ms": 900,
        "caller_after_ms": 4_000,
        "reprompts": ["Are you still there?"],
        "goodbye": "Then I hang up. Goodbye.",
    },
    "rules": {
        "intents": {
            "look_long": {
                "sentences": ["[please] (check|look up) my order [please]"],
                "tool": "look_long",
            },
        }
    },
}
"""The same on a server without words of its own for waiting; who says nothing is asked soon."""

SHOP: dict[str, Any] = {
    "greeting": "Bicycle shop.",
    "tools": ["hangup_call", "buy_bicycle"],
    "rules": {
        "intents": {
            "buy": {
                "sentences": ["[please] [i want to] buy (a|the) bicycle [please]"],
                "tool": "buy_bicycle",
                "arguments": {},
                "say": "It is on its way.",
            },
        }
    },
}
BUY_BICYCLE: dict[str, Any] = {
    "kind": "mcp",
    "server": "orders",
    "tool": "json_text",
    "effects": "destructive",
    "approval_question": "One blue bicycle, sent to your home tomorrow morning. Shall I order it?",
}
"""Changes the world: the caller is asked first."""

UNHURRIED: dict[str, Any] = {
    "filler_after_ms": 0,
    "continuers": [],
    "caller_after_ms": 120_000,
    "agent_after_ms": 120_000,
}
"""Of each context that does not say otherwise: nothing is said because the machine is slow."""

Change = Callable[[dict[str, Any]], None]


def write_config(folder: Path, asterisk: AsteriskInstance, change: Change | None = None) -> Path:
    """The shipped configuration, with this Asterisk, an order desk, and the test's own changes."""
    shipped = REPOSITORY / "config"
    tree: dict[str, Any] = YAML(typ="safe").load(shipped / "ai-agent.yaml")
    atis = YAML(typ="safe").load(shipped / "aviation_atis.yaml")
    atis["metar_file"] = str(shipped / atis["metar_file"])
    tree["health"]["port"] = 0
    tree["audiosocket"] |= {"port": 0, "context": "demo"}
    tree["admin"] = {"token": TOKEN}
    tree["asterisk"] = {
        "url": asterisk.ari_url,
        "password": asterisk.ari_password,
        "reconnect_max_ms": 500,
    }
    tree["calls"] = {"directory": str(folder / "calls")}
    tree["contexts"]["orders"] = ORDER_DESK
    tree["contexts"]["patient"] = PATIENT_DESK
    tree["contexts"]["weather"] = {**tree["contexts"]["demo"], "greeting": "Weather desk."}
    tree["contexts"]["personal"] = {
        "greeting": "Hello {caller_name}, about your {ORDER}.",
        "variables": ["ORDER"],
        "rules": {},
    }
    tree["contexts"]["shop"] = SHOP
    tree["tools"]["buy_bicycle"] = BUY_BICYCLE
    tree["routes"] = {"4711": "personal"}
    server = tree["mcp"]["servers"]["aviation_atis"]
    server["command"][-1] = str(folder / "aviation_atis.yaml")
    server["defaults"] = {**server["defaults"], "timeout_ms": 60_000}
    server["defaults"].pop("slow_response_threshold_ms")
    tree["mcp"]["servers"]["orders"] = {
        "command": [sys.executable, "-m", "cordboard_testkit.mcp_servers.faulty", "good"],
        "restart": {"backoff_ms": 300},
        "defaults": {"timeout_ms": 60_000, "slow_response_message": "One moment please."},
        "tools": [
            {"name": "waits", "expose_as": "check_order", "slow_response_threshold_ms": 300},
            {"name": "slow", "expose_as": "place_order"},
            {"name": "plain", "expose_as": "opening_times"},
        ],
    }
    tree["mcp"]["servers"]["patience"] = {
        "command": [sys.executable, "-m", "cordboard_testkit.mcp_servers.faulty", "good"],
        "defaults": {"timeout_ms": 3_000},
        "tools": [{"name": "waits", "expose_as": "look_long"}],
    }
    tree["audiosocket"]["connect_timeout_ms"] = 30_000
    if change is not None:
        change(tree)
    for context in tree["contexts"].values():
        context["silence"] = UNHURRIED | context.get("silence", {})
    for server in tree["mcp"]["servers"].values():
        server.setdefault("start_timeout_ms", 60_000)
    path = folder / "ai-agent.yaml"
    for name, content in (("aviation_atis.yaml", atis), (path.name, tree)):
        with (folder / name).open("w") as file:
            YAML(typ="safe").dump(content, file)
    return path

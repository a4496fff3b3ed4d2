"""The dialplan and SIP endpoints of a throw-away Asterisk. Text only: no process, no files.

Callers arrive in the dialplan context `from-test`, without authentication, from any loopback port.

| dialled       | result                                                                         |
|---------------|--------------------------------------------------------------------------------|
| `agent`       | `Stasis(<app>)`, no `AI_CONTEXT` unless a header gives one                      |
| `ctx-<name>`  | `Set(AI_CONTEXT=<name>)`, then `Stasis(<app>)`                                  |
| `bare`        | `AudioSocket(<new uuid>, ${AUDIOSOCKET})`, the application without ARI          |
| `echo`        | `Echo()`: the caller hears their own voice                                      |
| `moh`         | music on hold                                                                   |
| a number      | the phone connected under that number, through the context `internal`          |

The SIP headers `X-AI-Context`, `X-AI-Agent` and `X-AI-Provider` set the channel variables
`AI_CONTEXT`, `AI_AGENT` and `AI_PROVIDER` on `agent` and `ctx-*` calls. After Stasis: Hangup.
"""

from __future__ import annotations

from dataclasses import dataclass

from cordboard.errors import KitError

PHONES_DIALPLAN_FILE = "extensions_phones.conf"
PHONES_PJSIP_FILE = "pjsip_phones.conf"


@dataclass(frozen=True, slots=True)
class DialplanSettings:
    """Parameters of the stock dialplan."""

    app: str = "cordboard"
    """The Stasis application of the engine under test."""
    audiosocket: str = "127.0.0.1:8090"
    """`host:port` that the extension `bare` connects to."""
    extra: str = ""
    """Dialplan text appended as it is: further contexts, or lines of `[from-test-extra]`."""


def extensions_conf(settings: DialplanSettings) -> str:
    """The whole `extensions.conf`."""
    extra = settings.extra if "[from-test-extra]" in settings.extra else "[from-test-extra]\n"
    return f"""[general]
static=yes
writeprotect=yes
[globals]
AUDIOSOCKET={settings.audiosocket}
[from-test]
; In a pattern an x stands for a digit, hence the brackets.
exten => _ct[x]-.,1,Set(AI_CONTEXT=${{EXTEN:4}})
 same => n,Goto(to-engine,s,1)
exten => agent,1,Goto(to-engine,s,1)
exten => bare,1,Answer()
 same => n,AudioSocket(${{UUID()}},${{AUDIOSOCKET}})
 same => n,Hangup()
exten => echo,1,Answer()
 same => n,Echo()
 same => n,Hangup()
exten => moh,1,Answer()
 same => n,MusicOnHold(default)
include => internal
include => from-test-extra
[to-engine]
exten => s,1,NoOp()
{_header_to_variable("X-AI-Context", "AI_CONTEXT")}
{_header_to_variable("X-AI-Agent", "AI_AGENT")}
{_header_to_variable("X-AI-Provider", "AI_PROVIDER")}
 same => n,Stasis({settings.app})
 same => n,Hangup()
#include {PHONES_DIALPLAN_FILE}
{extra}
{"" if extra == settings.extra else settings.extra}
"""


def pjsip_conf(sip_port: int, extra: str) -> str:
    """The whole `pjsip.conf`: one open endpoint for loopback callers, and the connected phones."""
    return f"""[global]
type=global
user_agent=cordboard-test-asterisk
[udp]
type=transport
protocol=udp
bind=127.0.0.1:{sip_port}
[caller]
type=endpoint
transport=udp
context=from-test
disallow=all
allow=ulaw,alaw
direct_media=no
rtp_symmetric=yes
dtmf_mode=rfc4733
[caller-by-address]
type=identify
endpoint=caller
match=127.0.0.0/8
#include {PHONES_PJSIP_FILE}
{extra}
"""


def phones_dialplan(phones: dict[str, tuple[str, int]]) -> str:
    """`[internal]`: each number dials its phone for at most 30 s."""
    lines = ["[internal]"]
    for number in phones:
        lines += [f"exten => {number},1,Dial(PJSIP/phone-{number},30)", " same => n,Hangup()"]
    return "\n".join(lines) + "\n"


def phones_pjsip(phones: dict[str, tuple[str, int]]) -> str:
    """An endpoint `phone-<number>` with a static contact for each phone."""
    sections = []
    for number, (host, port) in phones.items():
        if not number.isdigit():
            raise KitError(f"a phone's number is digits only, not {number!r}")
        sections.append(f"""[phone-{number}]
type=endpoint
transport=udp
context=from-test
disallow=all
allow=ulaw
aors=phone-{number}
direct_media=no
dtmf_mode=rfc4733
[phone-{number}]
type=aor
contact=sip:{number}@{host}:{port}
""")
    return "".join(sections)


def _header_to_variable(header: str, variable: str) -> str:
    value = f"${{PJSIP_HEADER(read,{header})}}"
    return f' same => n,ExecIf($["{value}"!=""]?Set({variable}={value}))'

"""A dialplan in the shape that FreePBX generates, of our own writing, for one installation.

Its facts are from FreePBX's documentation, and from how its modules `core`, `customappsreg`,
`queues` and `ringgroups` name contexts and variables. `GENERATED` stands for what the modules
write; operators write to `extensions_custom.conf`, here `CUSTOM`, as docs/freepbx.md says. Where
older versions use `Macro`, which Asterisk 22 lacks, this has `Gosub`.

    DID ─ from-pstn ─ ext-did ─ customdests ─ cordboard-CONTEXT (the engine)
    from-internal ─ from-internal-xfer ─ from-internal-custom
                          └─ from-internal-additional ─ ext-local, ext-group, ext-queues
    no answer, queue's time over ─ customdests ─ cordboard-return (the engine again)
"""

from __future__ import annotations

from typing import Any

from cordboard.telephony.asterisk.dialplan import dialplan

PHONES = ("6021", "6022")
RING_SECONDS = "GROUP_SECONDS"
"""Global variable: how long the ring group rings, which FreePBX writes as a number."""
PLACES: dict[str, dict[str, Any]] = {
    "extension": {"target": "6021"},
    "group": {"type": "ring_group", "target": "600", "returns": True},
    "fpbx-queue": {"type": "queue", "target": "400", "returns": True},
}
"""Destinations; the context `at-NAME` transfers there, and the DID leads to it."""
DIDS = {name: f"+472233000{number}" for number, name in enumerate(PLACES)}

GENERATED = """
[from-pstn]
include => from-pstn-custom
include => ext-did
[from-pstn-custom]
[from-internal]
include => from-internal-xfer
include => bad-number
[from-internal-xfer]
include => from-internal-custom
include => from-internal-additional
exten => h,1,Gosub(hangupcall,s,1())
[from-internal-additional]
include => ext-local
include => ext-group
include => ext-queues
[bad-number]
exten => _X.,1,Progress()
 same => n,Congestion(3)
exten => _*X.,1,Progress()
 same => n,Congestion(3)
[hangupcall]
exten => s,1,ExecIf($["${DIALSTATUS}"=""]?NoOp())
 same => n,Hangup()
 same => n,Return()
[user-callerid]
exten => s,1,Set(AMPUSER=${CALLERID(number)})
 same => n,Set(__TTL=64)
 same => n,Return()
[ext-group]
exten => 600,1,Gosub(user-callerid,s,1())
 same => n,Set(__NODEST=${EXTEN})
 same => n,Set(RingGroupMethod=ringall)
 same => n(DIALGRP),Gosub(dial,s,1(${GROUP_SECONDS},${DIAL_OPTIONS},6021-6022))
 same => n,Set(RingGroupMethod=)
 same => n,Set(__NODEST=)
 same => n,Goto(customdests,dest-ring_group,1)
[ext-queues]
exten => 400,1,Gosub(user-callerid,s,1())
 same => n,Answer()
 same => n,Set(__NODEST=${EXTEN})
 same => n,Set(QMAXWAIT=2)
 same => n(qcall),Queue(400,t,,,${QMAXWAIT})
 same => n,Set(__NODEST=)
 same => n,Set(QDEST=${VQ_DEST})
 same => n(gotodest),GotoIf($["${QDEST}"=""]?customdests,dest-queue,1)
 same => n,Hangup()
[dial]
exten => s,1,Set(TARGETS=)
 same => n,Set(LEFT=${ARG3})
 same => n(more),Set(TARGETS=${TARGETS}&PJSIP/phone-${CUT(LEFT,-,1)})
 same => n,Set(LEFT=${CUT(LEFT,-,2-)})
 same => n,GotoIf($["${LEFT}"!=""]?more)
 same => n,Dial(${TARGETS:1},${ARG1},${ARG2})
 same => n,Return()
[exten-vm]
exten => s,1,Gosub(user-callerid,s,1())
 same => n,Gosub(dial,s,1(15,${DIAL_OPTIONS},${ARG2}))
 same => n,Return()
"""
EXTENSION = """exten => {0},1,Set(__RINGTIMER=15)
 same => n,Gosub(exten-vm,s,1(novm,{0}))
 same => n(dest),Hangup()
exten => {0},hint,PJSIP/phone-{0}&Custom:DND{0}
"""
CUSTOM_DESTINATION = """exten => dest-{0},1,Noop(Entering Custom Destination {0})
 same => n,Goto({1})
"""
INBOUND_ROUTE = """exten => {0},1,Set(__DIRECTION=INBOUND)
 same => n,Set(__FROM_DID=${{EXTEN}})
 same => n,Set(CDR(did)=${{FROM_DID}})
 same => n,ExecIf($["${{CALLERID(name)}}"=""]?Set(CALLERID(name)=${{CALLERID(num)}}))
 same => n(dest-ext),Goto(customdests,dest-at-{1},1)
"""
CUSTOM = """[cordboard-return]
exten => queue,1,Stasis(cordboard,return,queue,${QUEUESTATUS})
 same => n,Hangup()
exten => ring_group,1,Stasis(cordboard,return,ring_group,${DIALSTATUS})
 same => n,Hangup()
"""
"""What docs/freepbx.md has for `extensions_custom.conf`, beside the lines of `cordboard doctor`."""
QUEUE = "[400]\nstrategy=ringall\njoinempty=yes\n"


def freepbx_dialplan() -> str:
    """The whole dialplan. Its DIDs can be dialled by the callers of the tests."""
    kinds = ("queue", "ring_group")
    inside = {f"at-{name}": f"cordboard-at-{name},s,1" for name in PLACES}
    back = {kind: f"cordboard-return,{kind},1" for kind in kinds}
    return "\n".join(
        [
            "[from-test-extra](+)",
            *(f"exten => {did},1,Goto(from-pstn,{did},1)" for did in DIDS.values()),
            "exten => inside-799,1,Goto(from-internal,799,1)",
            GENERATED,
            "[ext-local]",
            *map(EXTENSION.format, PHONES),
            "[ext-did]",
            *(INBOUND_ROUTE.format(did, name) for name, did in DIDS.items()),
            "[customdests]",
            *(CUSTOM_DESTINATION.format(*each) for each in (inside | back).items()),
            CUSTOM,
            dialplan(
                [f"at-{name}" for name in PLACES],
                {"799": "at-group"},
                phones="from-internal-custom",
            ),
        ]
    )


def freepbx(tree: dict[str, Any]) -> None:
    """A context for each destination: "Please check my order" transfers there."""
    places = tree["tools"]["transfer"]["destinations"]
    for name, keys in PLACES.items():
        places[name] = {"context": "from-internal", **keys}
        go = {"sentences": ["[please] (check|look up) my order [please]"], "transfer": name}
        tree["contexts"][f"at-{name}"] = {
            "greeting": f"Order desk. You called {name}.",
            "tools": ["hangup_call", "transfer"],
            "rules": {"intents": {"go": go}},
        }

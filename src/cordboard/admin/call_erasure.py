"""Endpoints that erase calls: one, or all of a number."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import Ask, Endpoint, Gives, Scope, Takes
from cordboard.admin.history import ONE, context_of_call, from_disk, keeper_of
from cordboard.errors import HistoryError, RequestRefused
from cordboard.firewall.numbers import caller_of, written_forms
from cordboard.firewall.store import forget_caller
from cordboard.history.erasure import Erasure, ErasureCertificate, ErasurePlan
from cordboard.history.masking import masked
from cordboard.outbound.campaigns.store import forget_person


class ErasureOf(Takes):
    """Either `call` or `number`."""

    call: str = Field("", max_length=200)
    number: str = Field("", max_length=100)
    """All calls of this caller, by exactly this number."""
    dry_run: bool = True
    """Only say what would go."""

    def facts(self) -> dict[str, Any]:
        """Return the call, or the last digits of the number, which the audit must not keep."""
        return {"call": self.call, "number": masked(self.number), "dry_run": self.dry_run}


class Erased(Gives):
    erased: bool
    """False: nothing was done."""
    calls: list[str]
    files: int
    refused: list[str]
    """Offers that were refused."""
    running: list[str]
    """Calls that have not ended. They are left out: try again afterwards."""
    unreadable: list[str]
    """Files that cannot be read, so that their calls may be among those of the number. The erasure
    is not complete until they are read, or erased by their ids."""
    problem: str
    """Reason why the erasure is not complete; empty if it is, and for a dry run."""
    elsewhere: dict[str, int | None]
    """Calls that other nodes of the cluster have, by node: they are not erased here, do it there.
    None: their calls are encrypted and cannot be looked at here."""
    others: list[str]
    """Other forms of the number, such as `22000001` for `+4722000001`, by which there are calls,
    perhaps of the same person. They are not among these: erase them by that form."""
    certificate: str = ""
    """Id of the certificate, in the folder `certificates` of the calls; empty: nothing was done."""


async def erase_call(ask: Ask) -> Erased:
    """Erase a call with all its files. It cannot be undone; `POST /erasures` says first what would
    go."""
    return await _erase(ask, "call", ask.params["call_id"], dry_run=False)


async def erase_calls(ask: Ask) -> Erased:
    """Erase a call, or all calls of a number, with all their files.

    By default it only says what would go.
    """
    body: ErasureOf = ask.body
    if bool(body.call) == bool(body.number):
        raise RequestRefused(422, "invalid", "expected either `call` or `number`")
    kind: Literal["call", "number"] = "call" if body.call else "number"
    return await _erase(ask, kind, body.call or body.number, dry_run=body.dry_run)


async def _erase(ask: Ask, kind: Literal["call", "number"], of: str, *, dry_run: bool) -> Erased:
    keeper = keeper_of(ask)
    erasure = Erasure(keeper.directory, keeper.store, keeper.catch_up, keeper.vault)
    config = ask.services.config()

    def work() -> tuple[ErasurePlan, list[str], ErasureCertificate | None]:
        plan = erasure.of_call(of) if kind == "call" else erasure.of_number(of)
        forms = written_forms(of, config.firewall.country) if kind == "number" else ()
        others = erasure.others_of(forms)
        if plan.running and kind == "call" and not plan.ledgers:
            message = "the call has not ended; erase it afterwards"
            raise RequestRefused(409, "not_ended", message)
        if dry_run:
            return plan, others, None
        if kind == "number":  # before the calls: it may be refused, and then no call is erased
            caller = caller_of(of, config.firewall.country)
            ask.services.views.forget(of)
            forget_caller(config.admin.ui.data, caller)
            forget_person(ask.services.outbound.campaigns, caller)
        proof = erasure.carry_out(plan, ask.who.name, number_removed=kind == "number")
        return plan, others, proof

    try:
        plan, others, certificate = await from_disk(ask, work)
    except HistoryError as error:
        if type(error) is HistoryError:
            raise RequestRefused(404, "not_there", str(error)) from None
        raise
    calls = [path.stem for path in plan.ledgers]
    if not dry_run:
        await ask.services.alarms.forget({*calls, *plan.refused})
    return Erased(
        erased=not dry_run,
        calls=calls,
        files=len(plan.files),
        refused=list(plan.refused),
        running=list(plan.running),
        unreadable=list(plan.unreadable),
        elsewhere=dict(plan.elsewhere),
        others=others,
        problem=certificate.problem if certificate is not None else "",
        certificate=certificate.id if certificate is not None else "",
    )


ENDPOINTS = (
    Endpoint(
        "DELETE",
        ONE,
        may=Permission.DATA_ERASE,
        scope=context_of_call,
        takes=None,
        gives=Erased,
        audit="call.erase",
        does=erase_call,
        elevated=True,
    ),
    Endpoint(
        "POST",
        "/erasures",
        may=Permission.DATA_ERASE,
        scope=Scope.NONE,
        takes=ErasureOf,
        gives=Erased,
        audit="calls.erase",
        does=erase_calls,
        elevated=True,
    ),
)

"""The endpoint that places a call (`cordboard.outbound.placing`). Its end is in the history."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from cordboard.accounts.rights import Permission
from cordboard.admin.endpoint import Ask, Endpoint, Gives, Takes
from cordboard.admin.pace import TRY
from cordboard.api.outbound import STATUS
from cordboard.errors import OutboundRefused, RequestRefused
from cordboard.history.masking import masked
from cordboard.outbound.placing import CallWanted


class PlaceCall(Takes):
    number: str = Field(max_length=40)
    """In E.164, such as +4722000000."""
    context: str = Field(max_length=100)
    message: str = Field("", max_length=1_000)
    """Left to a voicemail after its beep; empty: it is hung up on."""
    keys: list[Annotated[str, Field(pattern=r"^[0-9*#A-Dw]{1,40}$")]] = Field([], max_length=20)
    """Keys for a menu, step by step; empty: it is hung up on."""
    variables: dict[str, Annotated[str, Field(max_length=1_000)]] = Field({}, max_length=50)
    """Variables that the context declares."""

    def facts(self) -> dict[str, Any]:
        """Return the masked number."""
        return {"number": masked(self.number), "message": bool(self.message)}


class CallPlaced(Gives):
    call_id: str


async def place_call(ask: Ask) -> CallPlaced:
    """Call a number, and let a context talk. The call goes on by itself.

    `firewall` of the configuration decides which numbers may be called and when, `outbound` how
    many at a time.
    """
    body: PlaceCall = ask.body
    wanted = CallWanted(
        body.number, body.context, body.message, tuple(body.keys), dict(body.variables)
    )
    try:
        call_id = ask.services.outbound.place(wanted)
    except OutboundRefused as error:
        await ask.record_failure(error.reason)
        raise RequestRefused(STATUS[error.reason], error.reason, str(error)) from None
    return CallPlaced(call_id=call_id)


def _context_of_order(ask: Ask) -> str:
    body: PlaceCall = ask.body
    return body.context


ENDPOINTS = (
    Endpoint(
        "POST",
        "/calls",
        may=Permission.CALLS_PLACE,
        scope=_context_of_order,
        takes=PlaceCall,
        gives=CallPlaced,
        audit="call.place",
        does=place_call,
        pace=TRY,
        repeatable=True,
    ),
)

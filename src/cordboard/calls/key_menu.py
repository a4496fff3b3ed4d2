"""The keys that a context offers beside speech (`contexts.<name>.keys`), outside the agent.

    a key that no tool and no question takes ──▶ press ──▶ say | transfer | hang up
    turns without an understood word, unanswered re-prompts ──▶ the prompt is spoken

It works with every agent: the engine acts, the agent only speaks the configured sentences. A
transfer passes the firewall as the caller's own act: where its destination needs a proof
(`step_up`), they are asked for it as for a tool. An attended one is attended here too. A caller who
is back from it, or is not transferred, hears why. While a key's transfer runs, other keys have no
effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Protocol

import structlog

from cordboard.calls import events
from cordboard.calls.ledger import Ledger
from cordboard.config.key_menu import KeyMenu, KeyOption
from cordboard.config.schema import Config
from cordboard.errors import CallerNotVerified, LineError, LineGone
from cordboard.firewall.policy import By
from cordboard.tools.builtin import CLOSED, OUTCOME_WORDS, spoken_name
from cordboard.tools.call_line import TransferResult

log = structlog.get_logger()

CHOSEN = "They chose this by a key."
"""The caller's concern, as a human who is asked first hears it."""
NOT_VERIFIED = "I am sorry, I could not verify who you are, so I cannot transfer you to {place}."
BY_OPERATOR = (
    "I am sorry, a colleague must confirm who you are before I can transfer you to {place}."
)


def sentences(config: Config) -> Iterator[str]:
    """Yield the prompts and the sentences of the keys, and those of transfers that fail."""
    for context in config.contexts.values():
        if context.keys is None:
            continue
        yield context.keys.prompt
        for option in context.keys.options.values():
            yield from (option.say, option.hang_up)
            if option.transfer is not None:
                place = spoken_name(option.transfer)
                for words in (*OUTCOME_WORDS.values(), CLOSED, NOT_VERIFIED, BY_OPERATOR):
                    yield words.format(place=place)


class TransfersCaller(Protocol):
    """Transfers the caller (`calls.call_control.CallControl.transfer_after_speech`)."""

    async def __call__(
        self, destination: str, reason: str = "", by: By = "agent"
    ) -> TransferResult: ...


@dataclass(frozen=True, slots=True)
class MenuOutlets:
    """The call, as its key menu sees it."""

    say: Callable[[str, bool], None]
    """`say(text, cuts)`: have the agent speak a sentence, in place of its answer or after it."""
    announce: Callable[[str], Coroutine[None, None, None]]
    """Have the agent speak a sentence in place of its answer; returns when it was heard, or will
    not be."""
    cut: Callable[[], None]
    """Take back what the agent is saying: a caller who chose does not listen any more."""
    prove: Callable[[str], Coroutine[None, None, None]]
    """Have the caller give the proofs that a destination needs
    (`calls.call_firewall.CallFirewall.prove_for`)."""
    transfer: TransfersCaller
    hang_up: Callable[[str], None]
    """Say this farewell and end the call."""
    failed: Callable[[BaseException], None]
    """An error of the engine's own code."""


class CallKeyMenu:
    """The key menu of one call."""

    def __init__(self, menu: KeyMenu, ledger: Ledger, outlets: MenuOutlets) -> None:
        self._menu = menu
        self._ledger = ledger
        self._call = outlets
        self._failures = 0
        """Turns in a row without an understood word."""
        self._offered = False
        """The prompt was spoken because nothing was understood, and no key has come since."""
        self._transfer: asyncio.Task[None] | None = None

    def press(self, key: str) -> None:
        """Take a key. One that the menu does not have is ignored, unless the caller was just told
        the keys: then they are told again."""
        option = self._menu.options.get(key)
        if self.busy or (option is None and not self._offered):
            return
        self._failures = 0
        self._call.cut()
        if option is None:
            self._call.say(self._menu.prompt, True)
            return
        self._offered = False
        self._ledger.record(events.KeyChosen(option.act, option.transfer or ""))
        self._follow(option)

    @property
    def busy(self) -> bool:
        """True during a transfer that the caller has chosen."""
        return self._transfer is not None and not self._transfer.done()

    def heard(self, understood: bool) -> None:
        """Note whether the caller's turn had an understood word; a re-prompt to a silent caller
        counts as a turn without."""
        self._failures = 0 if understood else self._failures + 1
        self._offered = self._offered and not understood
        if self._menu.offer_after and self._failures >= self._menu.offer_after:
            self._failures, self._offered = 0, True
            # The agent that reports the turn must not be called within its event.
            asyncio.get_running_loop().call_soon(self._call.say, self._menu.prompt, False)

    async def close(self) -> None:
        """Cancel a transfer that runs: the call is over."""
        if self._transfer is not None and not self._transfer.done():
            self._transfer.cancel()
            await asyncio.wait((self._transfer,))

    def _follow(self, option: KeyOption) -> None:
        if option.transfer is not None:
            self._transfer = asyncio.get_running_loop().create_task(
                self._pass_on(option.transfer, option.say), name="key transfer"
            )
        elif option.hang_up:
            self._call.hang_up(option.hang_up)
        else:
            self._call.say(option.say, True)

    async def _pass_on(self, destination: str, announcement: str) -> None:
        """Transfer the caller; tell one who is back why. A task border."""
        words = OUTCOME_WORDS["failed"]
        try:
            await self._call.prove(destination)
            if announcement:
                await self._call.announce(announcement)
            result = await self._call.transfer(destination, CHOSEN, by="caller")
            if not result.returned:
                return
            words = CLOSED if result.closed else OUTCOME_WORDS[result.outcome]
        except LineGone:
            return
        except CallerNotVerified as error:
            words = BY_OPERATOR if error.by_operator else NOT_VERIFIED
        except LineError as error:
            log.warning("key_transfer_failed", destination=destination, error=str(error))
        except Exception as error:  # task border: the caller is with the agent
            log.exception("key_transfer_failed", error=repr(error))
            self._call.failed(error)
        self._call.say(words.format(place=spoken_name(destination)), False)

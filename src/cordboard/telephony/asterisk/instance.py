"""The Stasis application and the ARI user of one instance of an engine.

    own = Instance(config.asterisk, "a7-3f2a1c")
    source = AsteriskSource(own.config, path, on_offer, instance=own)

ARI knows no owners: any user may do anything to any channel. So that an engine which others have
replaced can do nothing when it wakes, each start of an engine has a user of its own, which they
remove (`revoke`). Asterisk checks user and rights at every request, also on an open websocket:
the removed user's requests get 401 (measured on 22.10.1; 0.8 ms for the removal).

The configured user (`asterisk.username`) makes and removes these users and does nothing else. They
live in Asterisk's memory: they survive `module reload`, but not a restart of Asterisk.
"""

from __future__ import annotations

import secrets
from urllib.parse import quote

from pydantic import SecretStr

from cordboard.config.schema import Asterisk
from cordboard.errors import AsteriskError
from cordboard.telephony.asterisk.ari import brief_connection
from cordboard.telephony.asterisk.password_hash import hashed

SORCERY = "; sorcery.conf\n[res_ari]\nuser = config,ari.conf,criteria=type=user\nuser = memory"
"""The lines without which Asterisk keeps no users but those of ari.conf."""
_PASSWORD_BYTES = 24


class Instance:
    """Names and user of one instance at one Asterisk."""

    def __init__(self, asterisk: Asterisk, name: str) -> None:
        """`name`: of the instance, fresh at each start."""
        self.shared_section = asterisk
        """The section `asterisk` of the file."""
        self.name = name
        self.family = asterisk.app
        """The beginning of the applications of all instances."""
        self.app = self.app_of(name)
        """Name of its Stasis application and of its ARI user."""
        password = SecretStr(secrets.token_hex(_PASSWORD_BYTES))
        self.config = asterisk.model_copy(
            update={"app": self.app, "username": self.app, "password": password}
        )
        """The section `asterisk`, with this instance's application, user and password."""
        self._startup = ""
        """Start time of the Asterisk that has the user; empty: none has."""

    def app_of(self, name: str) -> str:
        """Return the application of an instance."""
        return _app(self.shared_section, name)

    def is_fellow(self, app: str) -> bool:
        """True if this is the application of another instance."""
        return app != self.app and app.startswith(f"{self.family}-")

    @property
    def made(self) -> bool:
        """True if the user has been made."""
        return bool(self._startup)

    async def make(self) -> bool:
        """Make the user, unless this run of Asterisk has had it before.

        Returns False if it has: then another engine has removed the user, or nothing is wrong.
        Raises `AsteriskError`, also if Asterisk is not set up to keep such users.
        """
        async with brief_connection(self.shared_section, "users") as ari:
            info = await ari.request("GET", "asterisk/info", only="status")
            startup = str(info["status"]["startup_time"])
            if startup == self._startup:
                return False
            fields = {
                "password_format": "crypt",
                "password": hashed(self.config.password.get_secret_value()),
                "read_only": "no",
            }
            body = {"fields": [{"attribute": name, "value": fields[name]} for name in fields]}
            try:
                await ari.request("PUT", _path(self.app), body)
            except AsteriskError as error:
                if error.status == 0:
                    raise
                raise AsteriskError(
                    f"Asterisk does not make an ARI user for this engine ({error.status}): it "
                    "needs these lines, and a restart:\n" + SORCERY,
                    error.status,
                ) from error
            self._startup = startup
        return True

    async def remove(self) -> None:
        """Remove the user. Raises `AsteriskError`."""
        await _remove(self.shared_section, self.app)
        self._startup = ""


async def revoke(asterisk: Asterisk, name: str) -> None:
    """Remove the user of another instance: from now on Asterisk refuses all its requests.

    One that is gone is fine. Raises `AsteriskError`: then that instance may still act. `asterisk`
    is the section of the file.
    """
    await _remove(asterisk, _app(asterisk, name))


def _app(asterisk: Asterisk, name: str) -> str:
    """Return the name of the Stasis application, and of the ARI user, of an instance."""
    return f"{asterisk.app}-{name}"


async def _remove(asterisk: Asterisk, user: str) -> None:
    async with brief_connection(asterisk, "users") as ari:
        try:
            await ari.request("DELETE", _path(user))
        except AsteriskError as error:
            if error.status != 404:
                raise


def _path(user: str) -> str:
    return f"asterisk/config/dynamic/res_ari/user/{quote(user, safe='')}"

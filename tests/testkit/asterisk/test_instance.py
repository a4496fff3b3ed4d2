"""What users of the throw-away Asterisk can read of each other."""

from __future__ import annotations

import asyncio
import base64
import urllib.error
import urllib.request

import pytest

from cordboard_testkit.asterisk import AsteriskInstance

pytestmark = pytest.mark.asterisk

READER = ("reader", "reads-only")
READER_HASH = (
    "$6$rounds=1000$reader$zwJQicQpAZW30GKvi2duxoznkCpcIahvnCX1Q/"
    "INFOuDKdJG8aqmCdyHWkMBOvEfSnVLKJYE83vCKSI4Bx9YY0"
)
READER_CONF = f"""[reader]
type=user
read_only=yes
password_format=crypt
password={READER_HASH}
"""


async def get(asterisk: AsteriskInstance, path: str, user: tuple[str, str]) -> tuple[int, bytes]:
    credentials = base64.b64encode(":".join(user).encode()).decode()
    request = urllib.request.Request(
        f"{asterisk.ari_url}/ari/{path}", headers={"Authorization": f"Basic {credentials}"}
    )

    def ask() -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read()

    return await asyncio.to_thread(ask)


async def test_an_ari_user_who_only_reads_finds_no_password_in_the_configuration() -> None:
    """Asterisk shows every ARI user what `ari.conf` says of all of them."""
    async with AsteriskInstance() as asterisk:
        with (asterisk.root / "etc/ari.conf").open("a") as users:
            users.write(READER_CONF)
        await asterisk.cli("module reload res_ari.so")
        status, shown = await get(
            asterisk, f"asterisk/config/dynamic/res_ari/user/{asterisk.ari_user}", READER
        )
        assert (status, b"password" in shown) == (200, True), "the attack works"
        assert asterisk.ari_password.encode() not in shown
        assert asterisk.ari_password_hash.encode() in shown
        owner = (asterisk.ari_user, asterisk.ari_password)
        assert (await get(asterisk, "channels", owner))[0] == 200
        as_password = (asterisk.ari_user, asterisk.ari_password_hash)
        assert (await get(asterisk, "channels", as_password))[0] == 401

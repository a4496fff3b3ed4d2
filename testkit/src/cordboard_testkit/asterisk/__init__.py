"""A throw-away real Asterisk for tests and demonstrations.

async with AsteriskInstance() as asterisk:
    call = await phone.call(asterisk.sip_uri("echo"))
"""

from cordboard_testkit.asterisk.dialplan import DialplanSettings
from cordboard_testkit.asterisk.installation import AsteriskInstallation, find_asterisk
from cordboard_testkit.asterisk.instance import AsteriskInstance

__all__ = ["AsteriskInstallation", "AsteriskInstance", "DialplanSettings", "find_asterisk"]

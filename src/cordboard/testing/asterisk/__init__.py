"""A throw-away real Asterisk for tests and demonstrations.

async with AsteriskInstance() as asterisk:
    call = await phone.call(asterisk.sip_uri("echo"))
"""

from cordboard.testing.asterisk.dialplan import DialplanSettings
from cordboard.testing.asterisk.installation import AsteriskInstallation, find_asterisk
from cordboard.testing.asterisk.instance import AsteriskInstance

__all__ = ["AsteriskInstallation", "AsteriskInstance", "DialplanSettings", "find_asterisk"]

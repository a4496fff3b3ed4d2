"""A SIP telephone for tests: signalling, G.711 RTP, telephone keys, and exact times."""

from cordboard_testkit.sip.call import PhoneCall
from cordboard_testkit.sip.incoming import IncomingCall
from cordboard_testkit.sip.outgoing import OutgoingCall
from cordboard_testkit.sip.phone import SipPhone
from cordboard_testkit.voice_line import CallEnd

__all__ = ["CallEnd", "IncomingCall", "OutgoingCall", "PhoneCall", "SipPhone"]

"""A SIP telephone for tests: signalling, G.711 RTP, telephone keys, and exact times."""

from cordboard.testing.sip.call import PhoneCall
from cordboard.testing.sip.incoming import IncomingCall
from cordboard.testing.sip.outgoing import OutgoingCall
from cordboard.testing.sip.phone import SipPhone
from cordboard.testing.voice_line import CallEnd

__all__ = ["CallEnd", "IncomingCall", "OutgoingCall", "PhoneCall", "SipPhone"]

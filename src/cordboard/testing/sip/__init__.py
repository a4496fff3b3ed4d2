"""A SIP telephone for tests: signalling, G.711 RTP, telephone keys, and exact times."""

from cordboard.testing.sip.call import CallEnd, PhoneCall
from cordboard.testing.sip.incoming import IncomingCall
from cordboard.testing.sip.outgoing import OutgoingCall
from cordboard.testing.sip.phone import SipPhone

__all__ = ["CallEnd", "IncomingCall", "OutgoingCall", "PhoneCall", "SipPhone"]

"""The shipped test kit: a SIP phone, a throw-away real Asterisk, simulated callers."""

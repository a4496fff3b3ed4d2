"""Strict emulators of the paid services: what stands in for them where there is no key.

They speak the services' own protocols, refuse what the services refuse, answer by a `Script`, and
fail on demand (`Fault`). The vendors' own SDKs pass against them.
Each vendor has a folder; what they have in common is beside these.
"""

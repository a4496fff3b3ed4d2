"""Transfers of a caller: blind, with a way back, and attended by a human who is asked first."""

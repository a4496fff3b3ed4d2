"""Calls that the engine places: one by one (`placing`), and by campaigns (`campaigns`).

It knows no Asterisk: a callable places an order, and reports how it ended.
"""

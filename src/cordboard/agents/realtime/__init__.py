"""Agents whose service hears and speaks by itself: one shell for all services."""

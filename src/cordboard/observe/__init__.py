"""Metric definitions and structured logging."""

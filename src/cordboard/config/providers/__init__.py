"""Sections under `providers:`: pipelines, and the services of a provider."""

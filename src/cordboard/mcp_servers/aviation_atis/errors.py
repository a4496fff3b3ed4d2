"""The errors between a question and a spoken report."""

from __future__ import annotations


class SettingsError(Exception):
    """The settings file cannot be used. The text is for the operator."""


class MalformedReportError(ValueError):
    """The text is not a METAR: no station, no observation time, or it broke the parser."""


class ReportUnavailableError(Exception):
    """There is no report that may be spoken.

    ``reason`` is a short machine-readable word, ``because`` a sentence to speak to the caller,
    ``detail`` is for the log. ``retry_after`` is in seconds, if upstream sent one.
    """

    def __init__(
        self, reason: str, because: str, detail: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(detail or because)
        self.reason = reason
        self.because = because
        self.detail = detail or because
        self.retry_after = retry_after

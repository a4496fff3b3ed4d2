"""`bench.cluster_engine` with a wall clock that is wrong: `skewed_engine.py SECONDS FILE AGENT`.

Only the wall clock is: the monotonic clocks, and that of leases, are the machine's, as on a machine
whose time was never set.
"""

from __future__ import annotations

import datetime
import runpy
import sys
import time
from pathlib import Path

SKEW = float(sys.argv.pop(1))
_time = time.time
_datetime = datetime.datetime


class _Kind(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _datetime)


class _Skewed(_datetime, metaclass=_Kind):
    """`datetime.datetime` whose `now` is wrong."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:  # type: ignore[override]
        return _datetime.now(tz) + datetime.timedelta(seconds=SKEW)


if __name__ == "__main__":
    time.time = lambda: _time() + SKEW
    datetime.datetime = _Skewed  # type: ignore[misc]
    sys.path.insert(0, str(Path.cwd()))
    runpy.run_module("bench.cluster_engine", run_name="__main__")

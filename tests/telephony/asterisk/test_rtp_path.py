"""What the RTP transport shows of all its calls."""

from __future__ import annotations

import asyncio
import socket

import pytest

from cordboard.audio.pacer import Pacer
from cordboard.config.schema import Rtp
from cordboard.errors import MediaError
from cordboard.observe.metrics import Metrics
from cordboard.telephony.asterisk.rtp_path import RtpPath

NO_PORT = b'ai_agent_rtp_events_total{event="no_port"} '


async def test_events_are_shown_and_each_is_reported_to_the_metrics_once() -> None:
    metrics = Metrics()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        path = RtpPath(Rtp(first_port=port, last_port=port), Pacer(asyncio.get_running_loop()))
        await path.start()
        try:
            for calls in (1, 2):
                with pytest.raises(MediaError):
                    await path.prepare([])
                path.report(metrics)
                path.report(metrics)
                assert NO_PORT + b"%d.0" % calls in metrics.render()
                assert path.health() == {"rtp_ports": 0, "rtp_events": {"no_port": calls}}
        finally:
            await path.stop()

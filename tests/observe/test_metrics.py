"""What Prometheus scrapes."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from cordboard.observe.metrics import Metrics
from cordboard.observe.tool_metrics import MAX_TOOLS


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every series, as Prometheus itself would parse it."""
    text = metrics.render().decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(metrics: Metrics, name: str, **labels: str) -> float:
    return samples(metrics)[(f"ai_agent_{name}", tuple(sorted(labels.items())))]


def test_a_call_is_active_until_it_has_ended() -> None:
    metrics = Metrics()
    metrics.calls.started()
    metrics.calls.started()
    metrics.calls.ended("demo", "local", "caller_hung_up")
    assert value(metrics, "active_calls") == 1
    labels = {"context": "demo", "provider": "local", "outcome": "caller_hung_up"}
    assert value(metrics, "calls_total", **labels) == 1


def test_a_refused_offer_is_no_call() -> None:
    metrics = Metrics()
    metrics.calls.refused("stopping")
    assert value(metrics, "refused_offers_total", reason="stopping") == 1
    assert value(metrics, "active_calls") == 0


def test_latencies_fall_into_buckets_around_what_is_asked_for() -> None:
    metrics = Metrics()
    for seconds in (0.85, 0.95, 1.25, 3.0):
        metrics.conversations.turn_latency("total", seconds)
    metrics.conversations.turn_latency("stt", 0.2)
    for bound, count in {"0.9": 1, "1.3": 3, "+Inf": 4}.items():
        assert value(metrics, "turn_latency_seconds_bucket", stage="total", le=bound) == count
    assert value(metrics, "turn_latency_seconds_count", stage="stt") == 1
    metrics.conversations.greeting_latency(0.25)
    assert value(metrics, "greeting_latency_seconds_bucket", le="0.2") == 0
    assert value(metrics, "greeting_latency_seconds_bucket", le="0.3") == 1


def test_tool_calls_are_counted_at_the_desk_and_at_the_server() -> None:
    metrics = Metrics()
    metrics.tools.called("mcp_a_find", "timeout", 2.0)
    metrics.servers.tool_called("a", "find", "timeout", 1.9)
    assert value(metrics, "tool_calls_total", tool="mcp_a_find", status="timeout") == 1
    assert value(metrics, "tool_latency_seconds_sum", tool="mcp_a_find") == 2.0
    labels = {"server": "a", "tool": "find"}
    assert value(metrics, "mcp_tool_calls_total", status="timeout", **labels) == 1
    assert value(metrics, "mcp_tool_latency_seconds_sum", **labels) == 1.9


def test_a_server_has_its_series_before_anything_happens() -> None:
    metrics = Metrics()
    metrics.servers.mcp_server_up("a", False)
    assert value(metrics, "mcp_server_up", server="a") == 0
    assert value(metrics, "mcp_server_restarts_total", server="a") == 0
    metrics.servers.mcp_server_restarted("a")
    metrics.servers.mcp_server_up("a", True)
    assert value(metrics, "mcp_server_up", server="a") == 1
    assert value(metrics, "mcp_server_restarts_total", server="a") == 1


def test_mcp_latencies_are_told_apart_where_a_caller_notices_them() -> None:
    metrics = Metrics()
    for seconds in (0.008, 0.4, 1.2, 45.0):
        metrics.servers.tool_called("a", "find", "ok", seconds)
    labels = {"server": "a", "tool": "find"}
    for bound, count in {"0.01": 1, "0.5": 2, "2.0": 3, "30.0": 3, "60.0": 4}.items():
        assert value(metrics, "mcp_tool_latency_seconds_bucket", le=bound, **labels) == count


def test_what_never_got_to_the_server_is_counted_and_not_timed() -> None:
    metrics = Metrics()
    metrics.servers.tool_called("a", "find", "refused", 0.0)
    labels = {"server": "a", "tool": "find"}
    assert value(metrics, "mcp_tool_calls_total", status="refused", **labels) == 1
    assert not any(
        name == "ai_agent_mcp_tool_latency_seconds_count" for name, _ in samples(metrics)
    )


def test_a_server_that_renames_its_tools_for_ever_makes_no_series_for_ever() -> None:
    metrics = Metrics()
    for number in range(5 * MAX_TOOLS):
        metrics.servers.tool_called("a", f"tool_{number}", "refused", 0.0)
    metrics.servers.tool_called("a", "tool_0", "refused", 0.0)
    metrics.servers.tool_called("b", "find", "refused", 0.0)
    counts = {
        (dict(labels)["server"], dict(labels)["tool"]): count
        for (name, labels), count in samples(metrics).items()
        if name == "ai_agent_mcp_tool_calls_total"
    }
    assert len(counts) == MAX_TOOLS + 2
    assert counts["a", "other"] == 4 * MAX_TOOLS
    assert counts["a", "tool_0"] == 2
    assert counts["b", "find"] == 1


def test_a_plugin_that_has_a_word_for_each_trouble_makes_no_series_for_ever() -> None:
    metrics = Metrics()
    for number in range(1_000):
        metrics.conversations.agent_trouble(f"trouble {number} \ud800")
    page = metrics.render().decode()
    assert page.count("\nai_agent_agent_troubles_total{") <= 101
    assert 'ai_agent_agent_troubles_total{what="other"} 900.0' in page


def test_no_name_breaks_the_page() -> None:
    metrics = Metrics()
    for tool in ('a "quoted"\nname\\', "half a pair \ud800", "x" * 10_000, "\x00\x1b[2J"):
        metrics.servers.tool_called("a", tool, "ok", 0.1)
    counted = [n for n, labels in samples(metrics) if n == "ai_agent_mcp_tool_calls_total"]
    assert len(counted) == 4
    assert len(metrics.render()) < 20_000


def test_a_breaker_is_seen() -> None:
    metrics = Metrics()
    metrics.servers.mcp_server_up("a", True)
    assert value(metrics, "mcp_breaker_open", server="a") == 0
    metrics.servers.mcp_breaker("a", True)
    assert value(metrics, "mcp_breaker_open", server="a") == 1
    metrics.servers.mcp_breaker("a", False)
    assert value(metrics, "mcp_breaker_open", server="a") == 0


def test_the_series_of_a_server_go_with_it() -> None:
    metrics = Metrics()
    for server in ("a", "b"):
        metrics.servers.mcp_server_up(server, True)
        metrics.servers.mcp_server_restarted(server)
        metrics.servers.mcp_breaker(server, True)
        metrics.servers.tool_called(server, "find", "ok", 0.1)
    metrics.servers.mcp_server_gone("a")
    metrics.servers.mcp_server_gone("a")
    servers = [dict(labels).get("server") for _, labels in samples(metrics)]
    assert "a" not in servers
    assert "b" in servers
    metrics.servers.mcp_server_up("a", False)
    assert value(metrics, "mcp_server_restarts_total", server="a") == 0


def test_the_engine_itself() -> None:
    metrics = Metrics()
    metrics.load.loop_lag(0.03)
    metrics.media.ticks_late(3)
    metrics.load.worker_queue("final", 2)
    metrics.load.workers_busy(1)
    metrics.version("1.2.3")
    assert value(metrics, "event_loop_lag_seconds_bucket", le="0.02") == 0
    assert value(metrics, "event_loop_lag_seconds_bucket", le="0.05") == 1
    assert value(metrics, "late_ticks_total") == 3
    assert value(metrics, "worker_queue", priority="final") == 2
    assert value(metrics, "worker_busy") == 1
    assert value(metrics, "info", version="1.2.3") == 1


def test_a_component_that_a_reload_removed_leaves_no_series() -> None:
    metrics = Metrics()
    metrics.components_ready({"ledger": True, "recordings": False})
    assert value(metrics, "component_ready", component="ledger") == 1
    assert value(metrics, "component_ready", component="recordings") == 0
    metrics.components_ready({"ledger": False})
    assert value(metrics, "component_ready", component="ledger") == 0
    assert ("ai_agent_component_ready", (("component", "recordings"),)) not in samples(metrics)


def test_two_engines_do_not_mix() -> None:
    one, other = Metrics(), Metrics()
    one.calls.started()
    assert value(one, "active_calls") == 1
    assert value(other, "active_calls") == 0


def test_all_names_have_the_prefix_and_no_stray_series() -> None:
    metrics = Metrics()
    metrics.calls.ended("a", "b", "c")
    names = {name for name, _ in samples(metrics)}
    assert all(name.startswith("ai_agent_") for name in names)
    assert not any(name.endswith("_created") for name in names)


def test_what_went_wrong_on_rtp_is_counted_by_word() -> None:
    metrics = Metrics()
    metrics.media.rtp_events("lost", 3)
    metrics.media.rtp_events("lost", 1)
    metrics.media.rtp_events("stranger", 2)
    assert value(metrics, "rtp_events_total", event="lost") == 4
    assert value(metrics, "rtp_events_total", event="stranger") == 2

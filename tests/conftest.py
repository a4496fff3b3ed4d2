"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A busy machine is no failure: examples are bounded by number, not by time.
settings.register_profile(
    "cordboard", deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("cordboard")

"""Hypothesis for all tests: laws are tested, not the machine's speed, which others use too."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("zeus", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("zeus")

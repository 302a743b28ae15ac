"""Replay stored requests in backtests: the provider simulator and recordings."""

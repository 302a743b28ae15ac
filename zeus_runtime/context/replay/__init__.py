"""Stored requests played again: the provider simulator and recordings, for backtests."""

"""Calls a provider over HTTP without importing litellm, which takes seconds; litellm decides how a request looks."""

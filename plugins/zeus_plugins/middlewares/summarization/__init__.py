"""The middleware component `summarization`."""

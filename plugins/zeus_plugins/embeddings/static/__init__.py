"""The embedding component `static`."""

"""The embedding component `multilingual`."""

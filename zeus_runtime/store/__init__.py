"""Where threads live: the database, its tables and the append-only thread log."""

"""Web search services, one package each."""

"""The bundled embedding models, one package each."""

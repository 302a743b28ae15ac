"""The composed JSON Schema of a config, and the typed values that are made of YAML."""

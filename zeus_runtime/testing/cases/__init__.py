"""Behaviour evaluations: cases in a YAML file, run by an agent and compared with what they expect."""

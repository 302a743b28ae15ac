"""The YAML reader: a tree whose nodes know their file, line and column."""

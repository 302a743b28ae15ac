"""The memory backends that come with Zeus."""

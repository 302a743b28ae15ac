"""Known secrets: how they are found in a config, and masked in what leaves the process."""

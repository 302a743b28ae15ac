"""From several files to one config: extends, overlays, interpolation, `.env`, `--set`."""

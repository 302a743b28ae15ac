"""The middleware component `sandbox_files`."""

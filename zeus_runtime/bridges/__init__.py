"""What was written for another framework, run as a Zeus component. Each bridge is loaded only by who uses it."""

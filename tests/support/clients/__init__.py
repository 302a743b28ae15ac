"""Programs that use a service with packages of others; each runs in an environment that has its package."""

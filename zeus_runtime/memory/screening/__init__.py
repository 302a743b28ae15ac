"""What is never stored or trusted in memories and profiles: secrets, and orders to a model."""

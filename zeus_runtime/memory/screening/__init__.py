"""What must never be stored, and what must never be trusted: secrets, and orders to a model, in memories and profiles."""

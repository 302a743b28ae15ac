"""The protocol `openai`: chat completions and responses, with agents as models."""

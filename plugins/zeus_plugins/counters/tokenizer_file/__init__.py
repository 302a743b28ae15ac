"""The token counter component `tokenizer_file`."""

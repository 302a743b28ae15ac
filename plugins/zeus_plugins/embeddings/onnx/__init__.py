"""The embedding component `onnx`."""

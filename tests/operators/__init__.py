"""What a machine can do of each ONNX operator, and how exactly: the page docs/operators.md."""

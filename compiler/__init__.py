"""From an ONNX model to a program: graph → nests → tiles → instructions."""

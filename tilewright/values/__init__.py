"""The values of a network on the machine, tensor by tensor, beside those of ONNX Runtime."""

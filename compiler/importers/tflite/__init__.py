"""TFLite files: read, checked, and written as the ONNX model that means the same."""

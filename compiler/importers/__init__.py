"""From files to graphs: ONNX and TFLite, checked here; what comes out is complete."""

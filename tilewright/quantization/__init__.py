"""Float networks to int8: prepared, calibrated and written as standard QDQ ONNX, with the noise of each layer."""

"""Float networks to integers: prepared, calibrated and written as standard QDQ ONNX, with the noise of each layer."""

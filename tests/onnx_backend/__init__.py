"""The onnx package's own backend tests through `tilewright.onnx_backend`, and the page that says which pass."""

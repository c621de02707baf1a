"""What ONNX requires of a node beyond what its own checker and shape inference look at: shapes and attributes that fit.

The specification is https://onnx.ai/onnx/operators, opset 11 and later. A model that breaks it makes no sense on any
machine, and ONNX Runtime refuses it when it runs; so nothing of it goes to the host either. What the onnx package's
strict shape inference refuses by itself (inner sizes of products, axes, steps of 0, …) is not said again here.
"""

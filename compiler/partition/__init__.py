"""Between the machine and the host: which ONNX nodes run where, in which order, and what passes between them."""

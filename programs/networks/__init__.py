"""Networks from their papers as ONNX, float or int8, with seeded random weights: shapes are real, answers are not."""

"""Level 1 to level 1: ONNX's operators become a few canonical ones on integers, by tables of small rules."""

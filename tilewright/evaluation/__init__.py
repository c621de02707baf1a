"""How many answers of a network are right on a data set: on the machine, in ONNX Runtime, and before quantising."""

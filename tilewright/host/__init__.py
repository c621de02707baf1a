"""The host's side of a program: its tensors, the nodes that it computes, segments, batches, states, and the run."""

"""What no program of a network can go below, whatever the compiler finds: products, bytes of weights, cycles."""

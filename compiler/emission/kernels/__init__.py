"""What is done once for each access of a program, compiled (`isa.kernels`): who touched the same words before."""

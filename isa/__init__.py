"""What a machine is: its memories, engines and instructions, and everything that follows from them alone."""

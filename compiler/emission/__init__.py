"""From tile programs to instructions: order, addresses, waits, and the program."""

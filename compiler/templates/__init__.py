"""What the compiler makes of each engine template, and what it expects their work to take: a file for each."""

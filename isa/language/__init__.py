"""The statement language: numbers, words, expressions and their ranges."""

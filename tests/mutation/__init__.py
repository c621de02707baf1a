"""The mutation check: seeded faults in the parts that everything rests on, and which tests notice them."""

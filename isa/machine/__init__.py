"""A machine as frozen objects: memories, engines, instruction formats."""

"""Generated inputs against everything that reads a stranger's file: only our errors, in time, in memory, and right."""

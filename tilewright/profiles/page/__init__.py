"""A profile as one HTML file that needs no network: summary, roofline, causes, time line, memories, the machine."""

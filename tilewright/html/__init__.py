"""What all our pages are made of: one file without a network, in the colours of light paper and dark."""

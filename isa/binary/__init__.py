"""Programs as ELF files, and back."""

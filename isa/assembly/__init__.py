"""Programs as assembly text, and back."""

"""The page of what `specialise` found."""

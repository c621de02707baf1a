"""The same small networks in every form in which people have them."""

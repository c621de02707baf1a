"""What cycles are lost to, in words and colours."""

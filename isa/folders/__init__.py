"""What is kept in folders of the user: files that appear whole, locks, the cache, temporary folders."""

"""Files of users: what kind they are, arrays by name, and files that appear complete or not at all."""

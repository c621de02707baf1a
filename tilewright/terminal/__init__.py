"""What every command shares with a terminal: tables, progress, help, and how a command ends."""
